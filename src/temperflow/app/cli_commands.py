"""What each command does, once its words are understood."""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from temperflow.app import aftermath, cli_tables, recipes, runner
from temperflow.app.cli_reproduce import reproduce
from temperflow.app.errors import UsageError
from temperflow.app.run_directory import VERDICT, RunDirectory

Arguments = argparse.Namespace


def require_devices() -> None:
    """JAX chooses the devices; if it was told to use what is not there, it says so late and in its own words."""
    try:
        jax.devices()
    except Exception as error:
        asked = os.environ.get("JAX_PLATFORMS", "")
        raise UsageError(
            got=f"JAX_PLATFORMS={asked!r}, and no such device",
            expected="a kind of device that this machine has and the installed JAX supports",
            todo="unset JAX_PLATFORMS, or pip install 'temperflow[cuda]' for an NVIDIA GPU; see `temperflow doctor`",
        ) from error


def run(arguments: Arguments) -> int:
    """`temperflow run`."""
    from temperflow.app.cli_options import overrides

    out = arguments.out or Path("runs") / f"{_stem(arguments.target)}-{arguments.recipe.replace('/', '-')}"
    done = runner.fit(
        arguments.target,
        arguments.recipe,
        out,
        arguments.seed,
        dim=arguments.dim,
        overrides=overrides(arguments),
        progress=not arguments.quiet,
        tensorboard=arguments.tensorboard,
    )
    return _conclude(done, arguments)


def resume(arguments: Arguments) -> int:
    """`temperflow resume`."""
    done = runner.resume(arguments.directory, progress=not arguments.quiet, tensorboard=arguments.tensorboard)
    return _conclude(done, arguments)


def _conclude(done: runner.Run, arguments: Arguments) -> int:
    """Verdict, evaluation, comparison and report of a finished run."""
    aftermath.conclude(done, trials=arguments.trials, compare=arguments.compare, say=cli_tables.note)
    place = RunDirectory(done.directory)
    cli_tables.show_run(place)
    if not arguments.no_report:
        cli_tables.note(f"report: {aftermath.report(done.directory)}")
    return 0


def sample(arguments: Arguments) -> int:
    """`temperflow sample`."""
    from temperflow.app.export import export

    sampler = runner.load(arguments.directory)
    with cli_tables.counting(arguments.n, "draws") as each:
        found = export(sampler, arguments.n, arguments.out, seed=arguments.seed, method=arguments.method, each=each)
    cli_tables.show_draws(arguments.out, found)
    return 0


def evaluate(arguments: Arguments) -> int:
    """`temperflow evaluate`."""
    sampler, place = runner.load(arguments.directory), RunDirectory(arguments.directory)
    found = place.read_json(VERDICT) or aftermath.judged(place, sampler, seed=arguments.seed)
    figures = aftermath.evaluated(place, sampler, n=arguments.n, trials=arguments.trials, seed=arguments.seed)
    figures = {"verdict": found["verdict"], **figures}
    if arguments.json:
        return _print(figures)
    cli_tables.show_run(place)
    return 0


def compare(arguments: Arguments) -> int:
    """`temperflow compare`."""
    sampler = runner.load(arguments.directory)
    place = RunDirectory(arguments.directory)
    found = aftermath.compared(place, sampler, n=arguments.n, seed=arguments.seed, say=cli_tables.note)
    if arguments.json:
        return _print(found)
    cli_tables.show_comparison(found)
    return 0


def write_report(arguments: Arguments) -> int:
    """`temperflow report`."""
    print(aftermath.report(arguments.directory))
    return 0


def list_targets(arguments: Arguments) -> int:
    """`temperflow targets`."""
    from temperflow import targets as shipped

    rows = {name: shipped.get(name) for name in shipped.names()}
    listed = {
        name: {
            "dim": target.dim,
            "exact_draws": target.sample is not None,
            "log_evidence": target.log_evidence,
            "modes": None if target.modes is None else int(target.modes.shares.size),
            "reference": target.reference,
        }
        for name, target in rows.items()
    }
    if arguments.json:
        return _print(listed)
    cli_tables.show_targets(listed)
    return 0


def list_recipes(arguments: Arguments) -> int:
    """`temperflow recipes`."""
    listed = {name: recipes.summary(name) for name in recipes.names()}
    if arguments.json:
        return _print(listed)
    cli_tables.show_recipes(listed)
    return 0


def doctor(arguments: Arguments) -> int:
    """`temperflow doctor`; status 3 if something is wrong."""
    from temperflow.app.doctor import examine

    found = examine()
    if arguments.json:
        _print(found)
    else:
        cli_tables.show_doctor(found)
    return 0 if found["ok"] else 3


def _print(values: Any) -> int:
    print(json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False))
    return 0


def _stem(target: str) -> str:
    """A name for a directory: of the function where there is one."""
    return (target.rpartition(":")[2] or target).replace("/", "-").removesuffix(".py")


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "run": run,
    "resume": resume,
    "sample": sample,
    "evaluate": evaluate,
    "compare": compare,
    "report": write_report,
    "targets": list_targets,
    "recipes": list_recipes,
    "reproduce": reproduce,
    "doctor": doctor,
}
