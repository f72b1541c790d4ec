"""Where a target comes from, so that a run directory can find it again without holding any code."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx

from temperflow import targets
from temperflow.app.errors import UsageError, suggestion
from temperflow.app.files import digest
from temperflow.targets import Target


@dataclass(frozen=True)
class Origin:
    """How to get a target: by name, from a user's file, or only from whoever holds it in memory.

    Args:
        kind: which of the three.
        name: the target's name.
        dim: its dimension.
        file: absolute path of the user's file.
        function: the name in that file.
        sha256: the file's digest: another version of it is another target.
    """

    kind: Literal["name", "file", "memory"]
    name: str
    dim: int
    file: str | None = None
    function: str | None = None
    sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in `config.json`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Origin":
        """The inverse of `to_dict`."""
        return cls(**values)


def resolve(target: Target | str, dim: int | None = None) -> tuple[Target, Origin]:
    """A target and its origin from what a user gives: a `Target`, a name, or `file.py:function`.

    >>> target, origin = resolve("funnel")
    >>> origin.kind, resolve(target)[1] == origin
    ('name', True)
    """
    if isinstance(target, Target):
        return target, _origin_of(target)
    if not isinstance(target, str):
        raise UsageError(
            got=f"a target of type {type(target).__name__}",
            expected="a Target, the name of one, or 'file.py:function'",
            todo="wrap a function: Target(log_density, dim=2)",
        )
    if ".py" in target:
        file, _, function = target.rpartition(":") if not target.endswith(".py") else (target, "", "")
        path = Path(file).expanduser().resolve()
        found = _from_file(path, function, dim)
        return found, Origin("file", found.name, found.dim, str(path), function, digest(path.read_bytes()))
    found = _named(target, dim)
    return found, Origin("name", target, found.dim)


def rebuild(origin: Origin, directory: Path) -> Target:
    """The target of a run directory.

    A user's file is read from where it stood, never from inside the run directory, and only if
    it is still the very file: what lies in a directory that came from elsewhere cannot run.
    """
    if origin.kind == "name":
        return _named(origin.name, origin.dim)
    ask = "pass the target: load(directory, target=...)"
    if origin.kind == "memory":
        raise UsageError(
            got=f"{directory}, whose target {origin.name!r} was a function in memory",
            expected="the target beside the directory: functions are not stored",
            todo=ask,
        )
    path = Path(origin.file or "")
    if not path.is_file() or not path.is_absolute() or path.resolve().is_relative_to(directory.resolve()):
        raise UsageError(
            got=f"no {path} outside the run directory", expected="the file that defined the target", todo=ask
        )
    if digest(path.read_bytes()) != origin.sha256:
        raise UsageError(
            got=f"{path}, which has changed since the run", expected="the file as it was", todo=f"restore it, or {ask}"
        )
    return _from_file(path, origin.function or "", origin.dim)


def _named(name: str, dim: int | None) -> Target:
    """A shipped target; `dim` is passed on where the family leaves it open."""
    if name not in targets.names():
        raise UsageError(
            got=f"target {name!r}",
            expected="a name that `temperflow targets` lists, or file.py:function",
            todo=suggestion(name, targets.names(), f"choose one of {', '.join(targets.names())}"),
        )
    usual = targets.get(name)
    if dim is None or usual.dim == dim:
        return usual
    try:
        return targets.get(name, dim=dim)
    except ValueError as error:
        raise UsageError(
            got=f"target {name!r} with dim={dim}",
            expected=str(error).partition("expected ")[2] + f" (its own dimension is {usual.dim})",
            todo="leave dim out",
        ) from error


def _from_file(path: Path, function: str, dim: int | None) -> Target:
    from temperflow.app import target_file  # only a run of a user's file needs it

    return target_file.load(path, function, dim)


def _origin_of(target: Target) -> Origin:
    """By name if a shipped target of that name is this one, array for array.

    A family's members carry their size behind its name, as in `funnel-10`; the exact name goes first.
    """
    for name in sorted(targets.names(), key=len, reverse=True):
        if not target.name.startswith(name):
            continue
        for options in ({}, {"dim": target.dim}):
            try:
                shipped = targets.get(name, **options)
            except ValueError:
                continue
            if _equal(shipped, target):
                return Origin("name", name, target.dim)
    return Origin("memory", target.name, target.dim)


def _equal(one: Target, other: Target) -> bool:
    return one.dim == other.dim and bool(eqx.tree_equal(one, other))
