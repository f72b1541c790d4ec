"""A target from a user's Python file: the function is theirs, the checks are ours."""

import importlib.util
import sys
from pathlib import Path

from temperflow.app.errors import UsageError
from temperflow.targets import Target


def load(path: Path, function: str, dim: int | None) -> Target:
    """Run the file and take a log density, or a whole `Target`, from it.

    Args:
        path: the file; modules beside it can be imported by it.
        function: the name in it.
        dim: the dimension, which a function cannot tell; a `Target` knows its own.
    """
    if not path.is_file():
        raise UsageError(got=f"no file {path}", expected="an existing Python file", todo="check the path")
    if not function:
        raise UsageError(
            got=f"{path.name} without a function", expected="file.py:function", todo=f"write {path.name}:log_density"
        )
    found = _attribute(path, function)
    if isinstance(found, Target):
        if dim is not None and dim != found.dim:
            raise UsageError(
                got=f"dim={dim} for {function}, whose dimension is {found.dim}",
                expected="the same dimension",
                todo="leave dim out",
            )
        return found
    if not callable(found):
        raise UsageError(
            got=f"{function} of type {type(found).__name__} in {path.name}",
            expected="a function of one point, or a temperflow.Target",
            todo="name the function itself",
        )
    if dim is None:
        raise UsageError(
            got=f"{path.name}:{function} without a dimension",
            expected="the number of parameters",
            todo="add dim=8, or --dim 8 on the command line",
        )
    return Target(found, dim=dim, name=function)


def _attribute(path: Path, name: str) -> object:
    module_name = f"temperflow_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(got=str(path), expected="a Python file", todo="give it the ending .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(
            got=f"{path.name}, which raises {type(error).__name__}: {error}",
            expected="a file that can be imported",
            todo=f"run `python {path.name}` and mend it",
        ) from error
    finally:
        sys.path.remove(str(path.parent))
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UsageError(
            got=f"{path.name} without {name!r}",
            expected=f"one of {', '.join(known) or 'no name'}",
            todo="check the name",
        )
    return getattr(module, name)
