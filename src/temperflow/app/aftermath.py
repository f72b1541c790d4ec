"""What follows training: verdict, figures, comparison and report, each written into the run directory."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from temperflow.app.errors import UsageError
from temperflow.app.events import read
from temperflow.app.files import locked, to_json
from temperflow.app.run_directory import METRICS, VERDICT, RunDirectory
from temperflow.app.runner import Run
from temperflow.sampling import Sampler

COMPARISON = "comparison.json"


def conclude(run: Run, *, trials: int, compare: bool, say: Callable[[str], None]) -> None:
    """Whatever the directory does not hold yet: the same sampler would give the same again.

    Args:
        run: finished.
        trials: of the evaluation.
        compare: whether to run the classical samplers as well.
        say: told what runs next.
    """
    place = RunDirectory(run.directory)
    if place.read_json(VERDICT) is None:
        say("judging")
        judged(place, run.sampler, seed=run.seed)
    if place.read_json(METRICS) is None:
        say("evaluating")
        evaluated(place, run.sampler, n=2500, trials=trials, seed=run.seed)
    if compare and place.read_json(COMPARISON) is None:
        compared(place, run.sampler, n=2500, seed=run.seed, say=say)


def judged(place: RunDirectory, sampler: Sampler, *, seed: int) -> dict[str, Any]:
    """Write `verdict.json` and return what it says."""
    from temperflow.app.verdict import judge

    return _kept(place, VERDICT, judge(sampler, seed).to_dict())


def evaluated(place: RunDirectory, sampler: Sampler, *, n: int, trials: int, seed: int) -> dict[str, Any]:
    """Write `metrics.json` and return what it says."""
    from temperflow.diagnostics import evaluate

    try:
        metrics = evaluate(sampler, sampler.proposal.target, n=n, trials=trials, seed=seed)
    except ValueError as error:
        raise UsageError(
            got=f"n={n}, trials={trials}", expected="n of at least 2, trials of at least 1", todo=str(error)
        ) from error
    return _kept(place, METRICS, metrics.to_dict())


def compared(place: RunDirectory, sampler: Sampler, *, n: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Write `comparison.json` and return what it says."""
    from temperflow.app.comparison import compare

    if n < 2:
        raise UsageError(got=f"n={n}", expected="at least 2 draws", todo="pass -n 2500, say")
    calls = [event["energy_calls"] for event in read(place.events) if event["kind"] == "finished"]
    rows = compare(sampler, n, seed, calls[-1] if calls else None, say)
    return _kept(place, COMPARISON, {"n": n, "seed": seed, "rows": rows})


def report(directory: Path) -> Path:
    """Write `report.html` and say where."""
    from temperflow.app.report import write

    return write(directory)


def _kept(place: RunDirectory, name: str, values: dict[str, Any]) -> dict[str, Any]:
    finite = _sayable(values)
    with locked(place.path):
        place.write(name, to_json(finite))
    return finite


def _sayable(value: Any) -> Any:
    """With null where a number is not finite, which JSON cannot say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _sayable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable(item) for item in value]
    return value
