"""A target from a function in a user's file: `my_model.py:log_density`."""

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from temperflow.app.errors import UsageError, suggestion
from temperflow.app.files import digest
from temperflow.targets import Target


def load(path: Path, function: str, dim: int | None) -> Target:
    """Run the file and take what it calls `function`: a log density, or a `Target` with more to tell.

    Only what is needed to get hold of it is checked here; whether it makes sense as a density is
    asked before any training (`preflight`).

    Args:
        path: the file; modules beside it can be imported by it.
        function: the name in the file.
        dim: the dimension; needed for a function, and must agree with that of a `Target`.
    """
    _check_path(path)
    if not function:
        raise UsageError(
            got=f"{path.name} without the name of a function",
            expected=f"{path.name}:function",
            todo=f"append one of: {', '.join(_offered(_module(path))) or 'a function, once the file has one'}",
        )
    module = _module(path)
    found = getattr(module, function, None)
    if found is None:
        raise UsageError(
            got=f"no {function!r} in {path.name}",
            expected="a function of one point that returns its log density",
            todo=_suggestion(function, _offered(module)),
        )
    if isinstance(found, Target):
        if dim is not None and dim != found.dim:
            raise UsageError(
                got=f"dim={dim} for {function!r}, a Target of dimension {found.dim}",
                expected="one dimension",
                todo="leave --dim out",
            )
        return found if found.name != "custom" else _named(found, function)
    if not callable(found):
        raise UsageError(
            got=f"{function!r} in {path.name}, a {type(found).__name__}",
            expected="a function of one point that returns its log density",
            todo=_suggestion(function, _offered(module)),
        )
    if dim is None:
        raise UsageError(
            got=f"{path.name}:{function} without a dimension",
            expected="the number of coordinates of its argument",
            todo="add --dim N on the command line, or dim=N in Python",
        )
    if dim < 1:
        raise UsageError(got=f"dim={dim}", expected="a positive whole number", todo="pass the number of parameters")
    log_density: Any = found
    return Target(log_density, dim=dim, name=function)


def _named(target: Target, name: str) -> Target:
    """The same target under another name, which is part of its structure and not of its arrays."""
    fields = {field: getattr(target, field) for field in Target.__dataclass_fields__}
    return Target(**{**fields, "name": name})


def _check_path(path: Path) -> None:
    if path.is_file():
        return
    beside = [entry.name for entry in path.parent.glob("*.py")] if path.parent.is_dir() else []
    raise UsageError(
        got=f"{path}, which is {'a directory' if path.is_dir() else 'not there'}",
        expected="a Python file",
        todo=suggestion(path.name, beside, "check the path; it is taken from the present directory"),
    )


def _module(path: Path) -> ModuleType:
    """Run the file as a module of its own, once for each version of it."""
    name = f"temperflow_user_{digest(str(path).encode() + path.read_bytes())[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and annotations look for it
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a script may even call sys.exit
        del sys.modules[name]
        raise UsageError(
            got=f"{path.name}, which raises {_told(error)}{_where(error, path)}",
            expected="a file that can be imported",
            todo=f"make `python {path.name}` run without an error",
        ) from error
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """As when Python runs a script: the modules beside it come first, and nothing compiled is left beside it."""
    sys.path.insert(0, str(folder))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        sys.path.remove(str(folder))


def _offered(module: ModuleType) -> list[str]:
    """What the file itself defines that could be meant."""

    def could_be(value: Any) -> bool:
        own = getattr(value, "__module__", None) == module.__name__ and not isinstance(value, type)
        return isinstance(value, Target) or (callable(value) and own)

    return [name for name, value in vars(module).items() if not name.startswith("_") and could_be(value)]


def _suggestion(name: str, offered: list[str]) -> str:
    return suggestion(name, offered, f"the file has {', '.join(offered)}" if offered else "define it in the file")


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _where(error: BaseException, path: Path) -> str:
    """The line of the user's own file at which it went wrong."""
    if isinstance(error, SyntaxError):
        return f" (line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" (line {lines[-1]})" if lines else ""
