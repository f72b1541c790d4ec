"""`fit` and `load`: from a target to a trained sampler in a directory, and back."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from temperflow.app import recipes, shipped
from temperflow.app.build import build
from temperflow.app.config import Config
from temperflow.app.errors import UsageError
from temperflow.app.events import Event, EventLog, history, read
from temperflow.app.files import locked
from temperflow.app.manifest import Refused
from temperflow.app.origin import rebuild, resolve
from temperflow.app.preflight import Preflight, fingerprint, preflight, same_fingerprint
from temperflow.app.progress import TensorBoard, display
from temperflow.app.run_directory import METRICS, SAMPLER, VERDICT, RunDirectory, Settings
from temperflow.app.train import train
from temperflow.sampling import Sampler
from temperflow.targets import Target


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        directory: where it lies.
        sampler: what was trained.
        target: what it samples.
        config: all settings.
        seed: of all randomness.
    """

    directory: Path
    sampler: Sampler
    target: Target
    config: Config
    seed: int

    @cached_property
    def history(self) -> list[Event]:
        """The epochs that led here, one record each."""
        return history(read(RunDirectory(self.directory).events))

    @property
    def metrics(self) -> dict[str, Any] | None:
        """What the last evaluation measured; None before there was one."""
        return RunDirectory(self.directory).read_json(METRICS)

    @property
    def verdict(self) -> dict[str, Any] | None:
        """Whether to trust it, and why; None before it was judged."""
        return RunDirectory(self.directory).read_json(VERDICT)


def fit(
    target: Target | str,
    recipe: str = "ctds",
    out: str | Path = "runs/mine",
    seed: int = 0,
    config: Config | None = None,
    *,
    dim: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: bool = True,
    tensorboard: bool = False,
    checkpoint_every: float = 30.0,
) -> Run:
    """Train a sampler, or go on with one, or return it if it is finished.

    The directory holds one run. With the same arguments again it is resumed at its newest good
    checkpoint and ends with the same parameters, bit for bit, as if it had never stopped; with
    other arguments it is refused.

    Args:
        target: a `Target`, the name of a shipped one, or `file.py:function`.
        recipe: where the settings come from; see `temperflow recipes`.
        out: the run directory.
        seed: of all randomness.
        config: settings instead of a recipe's.
        dim: the dimension, for a function in a file and for shipped families that leave it open.
        overrides: single settings by path, `{"training.epochs": 20}`.
        progress: show what happens on standard error.
        tensorboard: write scalars for TensorBoard as well.
        checkpoint_every: least seconds between two checkpoints.
    """
    try:
        settled = recipes.get(recipe) if config is None else config
        settled = settled.override(dict(overrides or {}))
    except ValueError as error:
        got, _, expected = str(error).partition("; expected ")
        todo = "see `temperflow recipes` and `temperflow run --help`"
        raise UsageError(got=got, expected=expected, todo=todo) from error
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise UsageError(got=f"seed={seed!r}", expected="a whole number in [0, 2^31)", todo="choose another seed")
    if tensorboard:
        TensorBoard.writer()
    found, origin = resolve(target, dim)
    looked = preflight(found, _source_scale(settled, found))
    settings = Settings(settled, origin, seed, looked.fingerprint)
    directory = RunDirectory(Path(out))
    directory.prepare()
    with locked(directory.path):
        if not directory.exists():
            directory.begin(settings)
        elif differences := directory.settings().differences(settings):
            raise UsageError(
                got=f"{directory.path}, which holds a run with {'; '.join(differences[:4])}",
                expected="the same arguments, to go on with it",
                todo="choose another `out`, or `temperflow resume` to go on with what is there",
            )
        with _shown(progress, tensorboard, directory) as readers:
            return _carried_out(directory, settings, found, looked, readers, checkpoint_every, progress)


def resume(directory: str | Path, target: Target | None = None, **options: Any) -> Run:
    """Go on with the run in a directory, by the settings that it holds.

    Args:
        directory: of a run that was started.
        target: needed where it was a function in memory.
        options: `progress`, `tensorboard` and `checkpoint_every` of `fit`.
    """
    place = RunDirectory(Path(directory))
    settings = _settings(place)
    found = rebuild(settings.target, place.path) if target is None else target
    looked = preflight(found, _source_scale(settings.config, found))
    _require_same(settings, looked.fingerprint, place)
    shown = options.pop("progress", True)
    tensorboard, every = options.pop("tensorboard", False), options.pop("checkpoint_every", 30.0)
    if options:
        raise TypeError(f"resume takes progress, tensorboard and checkpoint_every; got {', '.join(options)}")
    with locked(place.path), _shown(shown, tensorboard, place) as readers:
        return _carried_out(place, settings, found, looked, readers, every, shown)


def load(directory: str | Path, target: Target | None = None) -> Sampler:
    """The trained sampler of a finished run.

    Args:
        directory: of the run, wherever it lies now.
        target: what it samples; needed where that was a function in memory, or in a file that is
            not where it was.
    """
    place = RunDirectory(Path(directory))
    content, settings = place.sampler_bytes(), _settings(place)
    found = rebuild(settings.target, place.path) if target is None else target
    if settings.target.kind != "name":
        _require_same(settings, fingerprint(found, _source_scale(settings.config, found)), place)
    built = build(settings.config, found, place.survey(), settings.seed, shapes_only=True)
    return shipped.from_bytes(content, built, settings.seed)


def _carried_out(
    directory: RunDirectory,
    settings: Settings,
    target: Target,
    looked: Preflight,
    readers: list[Any],
    checkpoint_every: float,
    notify: bool,
) -> Run:
    with EventLog(directory.events, readers) as log:
        if not directory.finished or not _shipped_is_sound(directory, log):
            train(directory, settings, target, looked, log, checkpoint_every, notify)
        built = build(settings.config, target, directory.survey(), settings.seed, shapes_only=True)
        sampler = shipped.from_bytes(directory.sampler_bytes(), built, settings.seed)
    return Run(directory.path, sampler, target, settings.config, settings.seed)


def _shipped_is_sound(directory: RunDirectory, log: EventLog) -> bool:
    try:
        directory.sampler_bytes()
    except (Refused, UsageError) as reason:
        log.write("refused", name=SAMPLER, reason=reason.got)
        return False
    return True


def _settings(directory: RunDirectory) -> Settings:
    if not directory.exists():
        raise UsageError(
            got=f"{directory.path}, which holds no run",
            expected="a directory that `temperflow run` or `fit` made",
            todo="check the path",
        )
    return directory.settings()


def _require_same(settings: Settings, values: tuple[float | None, ...], directory: RunDirectory) -> None:
    if not same_fingerprint(settings.fingerprint, values):
        raise UsageError(
            got="a target whose log density has other values than the run's",
            expected=f"the target that {directory.path} was trained on",
            todo="pass that target, or train a new one",
        )


def _source_scale(config: Config, target: Target) -> float:
    return target.source_scale if config.source_scale is None else config.source_scale


@contextlib.contextmanager
def _shown(progress: bool, tensorboard: bool, directory: RunDirectory) -> Iterator[list[Any]]:
    """The displays, taken down whatever happens."""
    readers: list[Any] = []
    try:
        if (shown := display(progress)) is not None:
            readers.append(shown)
        if tensorboard:
            readers.append(TensorBoard(directory.path / "tensorboard"))
        yield readers
    finally:
        for reader in readers:
            reader.close()
