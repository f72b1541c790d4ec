"""Every `equinox.Module` is abstract or final: what can be instantiated cannot be overridden."""

import ast
import importlib
import inspect

import equinox as eqx
import pytest
from source_tree import CORE, modules


def classes_of(names):
    """Every Module class that the named modules define."""
    found = set()
    for name in names:
        module = importlib.import_module(name)
        found |= {
            value
            for value in vars(module).values()
            if inspect.isclass(value) and issubclass(value, eqx.Module) and value.__module__ == name
        }
    return found


def is_abstract(cls):
    """It leaves a method or a field open (equinox keeps the latter apart)."""
    return bool(cls.__abstractmethods__ or getattr(cls, "__abstractvars__", None))


def wrongly_derived(classes):
    """Children of a class that could be instantiated."""
    return sorted(
        f"{child.__qualname__}({parent.__qualname__})"
        for child in classes
        for parent in child.__bases__
        if parent is not eqx.Module and issubclass(parent, eqx.Module) and not is_abstract(parent)
    )


def overrides(classes):
    """Methods with a body that a subclass replaces: one must not need to ask which of two is run."""
    for child in classes:
        for name, value in vars(child).items():
            if not callable(value) or name.startswith("__"):
                continue
            for parent in child.__mro__[1:]:
                if not issubclass(parent, eqx.Module) or parent is eqx.Module:
                    continue
                inherited = vars(parent).get(name)
                if inherited is not None and not getattr(inherited, "__isabstractmethod__", False):
                    yield f"{child.__qualname__}.{name} overrides {parent.__qualname__}.{name}"


def instantiated(sources, abstract):
    """Calls of an abstract class by its name."""
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in abstract:
                yield f"{name}:{node.lineno} calls {node.func.id}"


@pytest.fixture(scope="module")
def package_classes():
    return classes_of(modules(CORE))


def test_there_are_classes_of_both_kinds(package_classes):
    kinds = {cls.__name__: is_abstract(cls) for cls in package_classes}
    assert kinds["Proposal"]
    assert kinds["SteppedFlow"]
    assert not kinds["Langevin"]
    assert not kinds["Trainer"]


def test_final_classes_are_not_subclassed(package_classes):
    assert not wrongly_derived(package_classes)


def test_nothing_concrete_is_overridden(package_classes):
    assert not list(overrides(package_classes))


def test_abstract_classes_are_not_instantiated(package_classes):
    abstract = {cls.__name__ for cls in package_classes if is_abstract(cls)}
    assert not list(instantiated(modules(CORE), abstract))


class Open(eqx.Module):
    width: eqx.AbstractVar[float]

    def area(self) -> float:
        return self.width**2


class Closed(Open):
    width: float


class Reopened(Closed):
    def area(self) -> float:
        return 0.0


def test_planted_violations_are_caught():
    planted = {Open, Closed, Reopened}
    assert wrongly_derived(planted) == ["Reopened(Closed)"]
    assert list(overrides(planted)) == ["Reopened.area overrides Open.area"]
    assert list(instantiated({"planted": "thing = Open(1.0)"}, {"Open"}))
    assert not list(instantiated({"fine": "thing = Closed(1.0)"}, {"Open"}))
