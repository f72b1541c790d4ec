"""Every public class tells what it is and shows itself at work."""

import doctest
import importlib
import inspect

import equinox as eqx
import pytest
from source_tree import CORE


def public_classes(stage):
    module = importlib.import_module(f"temperflow.{stage}")
    return [value for name in module.__all__ if inspect.isclass(value := getattr(module, name))]


def can_be_made(cls):
    """An abstract class or a protocol has nothing to show; its children do."""
    return not (
        inspect.isabstract(cls) or getattr(cls, "__abstractvars__", None) or getattr(cls, "_is_protocol", False)
    )


def lacking(classes):
    """Those without a docstring, or without a doctest where there could be one."""
    for cls in classes:
        text = inspect.getdoc(cls) if cls.__doc__ else None
        if not text or len(text.split()) < 5:
            yield f"{cls.__name__} has no docstring"
        elif can_be_made(cls) and not doctest.DocTestParser().get_examples(text):
            yield f"{cls.__name__} has no doctest"


@pytest.mark.parametrize("stage", CORE)
def test_public_names_exist_once(stage):
    module = importlib.import_module(f"temperflow.{stage}")
    assert len(module.__all__) == len(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("stage", CORE)
def test_public_classes_are_documented_with_examples(stage):
    assert not list(lacking(public_classes(stage)))


class Silent(eqx.Module):
    width: float


class Told(eqx.Module):
    """It has a width, and that is all that there is to it."""

    width: float


class Shown(eqx.Module):
    """It has a width, and here it is.

    >>> Shown(2.0).width
    2.0
    """

    width: float


def test_planted_silence_is_caught():
    assert list(lacking([Silent, Told, Shown])) == ["Silent has no docstring", "Told has no doctest"]
