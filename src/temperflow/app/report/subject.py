"""What a report is about: a run directory, read back as far as the run has come."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temperflow.app.build import Built, build, needs_survey
from temperflow.app.checkpoint import Checkpoints
from temperflow.app.errors import UsageError
from temperflow.app.events import Event, history, read
from temperflow.app.loop import Journey
from temperflow.app.manifest import Manifest
from temperflow.app.origin import rebuild
from temperflow.app.run_directory import METRICS, VERDICT, RunDirectory, Settings
from temperflow.app.runner import load
from temperflow.app.stepper import Anchor, owned
from temperflow.sampling import Sampler
from temperflow.targets import Target

COMPARISON = "comparison.json"


@dataclass(frozen=True)
class Subject:
    """A run as its directory tells it.

    Args:
        path: the directory.
        settings: what decides the run.
        target: what it samples.
        built: its objects, with the untrained model.
        sampler: the trained one; of the newest checkpoint where the run has not finished, None
            where there is none yet.
        events: all of them.
        epochs: those of kind `epoch` that count.
        metrics, verdict, comparison: what has been written so far.
        versions: that wrote it.
        scale: the domain's size as the survey found it.
    """

    path: Path
    settings: Settings
    target: Target
    built: Built | None
    sampler: Sampler | None
    events: list[Event]
    epochs: list[Event]
    metrics: dict[str, Any] | None
    verdict: dict[str, Any] | None
    comparison: dict[str, Any] | None
    versions: dict[str, str]
    scale: float | None

    @property
    def finished(self) -> bool:
        """Whether training has reached its last epoch."""
        return RunDirectory(self.path).finished

    @property
    def epoch(self) -> int:
        """The last one recorded."""
        return int(self.epochs[-1]["epoch"]) if self.epochs else 0

    def latest(self, name: str) -> Any:
        """The newest event's field of this name; None where none has it."""
        return next((event[name] for event in reversed(self.events) if event.get(name) is not None), None)


def read_subject(directory: Path, target: Target | None = None) -> Subject:
    """Read a run directory, finished or not.

    Args:
        directory: of a run.
        target: needed where it was a function in memory.
    """
    place = RunDirectory(directory)
    if not place.exists():
        raise UsageError(
            got=f"{directory}, which holds no run",
            expected="a directory that `temperflow run` or `fit` made",
            todo="check the path",
        )
    settings, survey = place.settings(), place.survey()
    found = rebuild(settings.target, place.path) if target is None else target
    events = read(place.events)
    built = _built(place, settings, found)
    return Subject(
        directory,
        settings,
        found,
        built,
        None if built is None else _sampler(place, settings, built, found),
        events,
        history(events),
        place.read_json(METRICS),
        place.read_json(VERDICT),
        place.read_json(COMPARISON),
        dict(Manifest.read(directory).versions),
        None if survey is None else survey.scale,
    )


def _built(place: RunDirectory, settings: Settings, target: Target) -> Built | None:
    """The run's objects, or None where it stopped before the survey they need."""
    survey = place.survey()
    if survey is None and needs_survey(settings.config):
        return None
    return build(settings.config, target, survey, settings.seed)


def _sampler(place: RunDirectory, settings: Settings, built: Built, target: Target) -> Sampler | None:
    if place.finished:
        return load(place.path, target)
    start = owned(built.trainer.start(built.model, settings.seed))
    restored = Checkpoints(place.checkpoints, place.identity).restore(Journey(start, Anchor.of(start)).to_tree())
    return None if restored.tree is None else built.sampler(restored.tree["state"])
