"""The command line that makes a run again."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from temperflow.app import recipes
from temperflow.app.run_directory import Settings


def command(settings: Settings, directory: Path) -> str:
    """Target, recipe, seed and whatever differs from the recipe; the result goes to a new directory.

    A target that was a function in memory cannot be named on a command line: it gets a call of `fit`.

    Args:
        settings: of the run.
        directory: where the run lies.
    """
    origin, config = settings.target, settings.config
    changes = dict(_changes(recipes.get(config.recipe).to_dict(), config.to_dict()))
    out = f"runs/{directory.name}-again"
    if origin.kind == "memory":
        overrides = f", overrides={changes!r}" if changes else ""
        return f"temperflow.fit(target, recipe={config.recipe!r}, seed={settings.seed}{overrides}, out={out!r})"
    target = f"{origin.file}:{origin.function}" if origin.kind == "file" else origin.name
    words = ["temperflow", "run", target, "--recipe", config.recipe, "--seed", str(settings.seed)]
    if origin.kind == "file":
        words += ["--dim", str(origin.dim)]
    for name, value in changes.items():
        words += [f"--{name}", _worded(value)]
    return shlex.join([*words, "--out", out])


def _changes(recipe: dict[str, Any], used: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in used.items():
        if isinstance(value, dict):
            yield from _changes(recipe[name], value, f"{prefix}{name}.")
        elif value != recipe[name]:
            yield prefix + name, value


def _worded(value: Any) -> str:
    """As the command line reads it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_worded(item) for item in value)
    return str(value)
