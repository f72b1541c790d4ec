"""Training a batch: from wherever it stands to its last epoch, to a signal, or to the end of the time."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax

from temperflow import targets
from temperflow.app import arrays
from temperflow.app.build import needs_survey, survey_of
from temperflow.app.checkpoint import Checkpoints
from temperflow.app.errors import Interrupted
from temperflow.app.events import EventLog
from temperflow.app.files import to_json
from temperflow.app.loop import DROPPED_SHARE, LOOK_EVERY, SKIPPED_SHARE
from temperflow.app.manifest import versions
from temperflow.app.reproduce.batch import SAMPLERS, TRAINED, Batch
from temperflow.app.reproduce.budget import Budget
from temperflow.app.reproduce.ensemble import Ensemble, Look
from temperflow.app.run_directory import SURVEY
from temperflow.app.signals import StopRequest
from temperflow.training import TrainState

# Seconds between two lines about how far it is.
TELL_EVERY = 20.0


@dataclass
class Standing:
    """How far a batch has come, apart from its states.

    Args:
        seconds: time spent training, all sessions together, compilation included.
        trouble: for each seed that was in trouble, the first epoch of it and what it was, the last
            one, and how many.
        last: what the last epoch showed, a number a seed, None where it is not finite.
        skipped: for each seed, updates not made so far.
    """

    seconds: float = 0.0
    trouble: dict[str, dict[str, Any]] = field(default_factory=dict)
    last: dict[str, list[float | None]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)


def train(
    batch: Batch,
    budget: Budget,
    *,
    commit: str,
    command: str,
    checkpoint_every: float = 120.0,
    say: Callable[[str], None] = lambda text: None,
) -> bool:
    """Whether the samplers are there at the end; if not, a checkpoint is.

    A seed in trouble goes on as it is, and is told to be so: going back to a better state would
    train something else than the recipe. A batch ends early only if none of its seeds has a
    finite number left.

    Args:
        batch: what to train.
        budget: when to stop.
        commit: the source's, for the record.
        command: the words that led here, for the record.
        checkpoint_every: seconds between checkpoints.
        say: told how far it is.

    Raises:
        Interrupted: a signal came; the state is committed.
    """
    if batch.trained:
        return True
    batch.begin()
    with EventLog(batch.path / "events.jsonl") as log:
        ensemble = ensemble_of(batch, log)
        checkpoints = Checkpoints(batch.path / "checkpoints", batch.identity, keep=1)
        states, standing = _restored(checkpoints, ensemble, log)
        with StopRequest() as stop:
            states, done = _run(
                batch, ensemble, states, standing, checkpoints, budget, stop, log, checkpoint_every, say
            )
        if done:
            batch.write(SAMPLERS, arrays.to_bytes({"model": states.average, "bias": states.bias}))
            told = _told(ensemble, states, standing, commit, command)
            batch.write(TRAINED, to_json(told))
            log.write("trained", **told)
    return done


def ensemble_of(batch: Batch, log: EventLog | None = None) -> Ensemble:
    """The batch's programs and start; the pilot's survey is made once and kept."""
    target, config = targets.get(batch.row.target), batch.row.config
    if needs_survey(config) and batch.survey is None:
        found = survey_of(config, target, batch.seeds[0])
        batch.write(SURVEY, to_json(found.to_dict()))
        if log is not None:
            log.write("surveyed", **found.to_dict())
    return Ensemble(config, target, batch.survey, batch.seeds)


def trained_states(batch: Batch, ensemble: Ensemble) -> TrainState:
    """States whose averages and biases are the trained ones; of the rest only the structure means anything."""
    start = ensemble.start()
    kept = arrays.from_bytes(batch.load(SAMPLERS), {"model": start.average, "bias": start.bias})
    return eqx.tree_at(lambda s: (s.average, s.bias), start, (kept["model"], kept["bias"]))


def _run(
    batch: Batch,
    ensemble: Ensemble,
    states: TrainState,
    standing: Standing,
    checkpoints: Checkpoints,
    budget: Budget,
    stop: StopRequest,
    log: EventLog,
    checkpoint_every: float,
    say: Callable[[str], None],
) -> tuple[TrainState, bool]:
    epochs, pace = batch.row.config.training.epochs, 1
    epoch = int(states.epoch[0])
    committed = told = time.monotonic()
    while epoch < epochs:
        began = time.monotonic()
        states, looks = ensemble.run(states, min(pace, epochs - epoch))
        took = time.monotonic() - began
        for index, look in enumerate(looks):
            _note_trouble(standing, ensemble, look, epoch + index + 1)
        epoch += len(looks)
        standing.seconds += took
        standing.last = {name: [_finite(float(v)) for v in values] for name, values in looks[-1].info.items()}
        log.write("epochs", epoch=epoch, epochs=epochs, seconds=round(standing.seconds, 3), **standing.last)
        pace = max(1, int(LOOK_EVERY * len(looks) / max(took, 1e-6)))
        now = time.monotonic()
        if now - told > TELL_EVERY or epoch == epochs:
            shown = ", ".join("–" if value is None else f"{value:.3g}" for value in standing.last["residual"])
            say(f"{batch.row.name}: epoch {epoch}/{epochs}, {standing.seconds:.0f} s, residuals {shown}")
            told = now
        if not looks[-1].finite.any():
            break
        ended = budget.left() <= 0.0 or stop.number is not None
        if epoch < epochs and (ended or now - committed >= checkpoint_every):
            _commit(checkpoints, epoch, states, standing)
            committed = time.monotonic()
        if stop.number is not None and epoch < epochs:
            name = signal.Signals(stop.number).name
            log.write("interrupted", epoch=epoch, signal=name)
            raise Interrupted(stop.number, f"epoch {epoch} of {epochs} of {batch.row.name}", str(batch.path))
        if ended and epoch < epochs:
            log.write("time is up", epoch=epoch)
            return states, False
    return states, True


def _note_trouble(standing: Standing, ensemble: Ensemble, look: Look, epoch: int) -> None:
    """What the loop of a single run would have gone back for."""
    trainer = ensemble.trainer
    locations = trainer.walkers * (trainer.steps + 1)
    for index, seed in enumerate(map(str, ensemble.seeds)):
        skipped, dropped = int(look.info["skipped"][index]), int(look.info["dropped"][index])
        missed = skipped - standing.skipped.get(seed, 0)
        standing.skipped[seed] = skipped
        if not look.finite[index]:
            what = "parameters, or the optimiser's memory of them, that are not finite"
        elif missed > max(1, SKIPPED_SHARE * trainer.iterations):
            what = f"{missed} of {trainer.iterations} updates that would not have been finite"
        elif dropped > DROPPED_SHARE * locations:
            what = f"{dropped} of {locations} locations without finite numbers"
        else:
            continue
        told = standing.trouble.setdefault(seed, {"first": epoch, "what": what, "epochs": 0})
        told.update(last=epoch, epochs=told["epochs"] + 1)


def _commit(checkpoints: Checkpoints, epoch: int, states: TrainState, standing: Standing) -> None:
    checkpoints.save(epoch, _kept(states), {"standing": vars(standing)})


def _restored(checkpoints: Checkpoints, ensemble: Ensemble, log: EventLog) -> tuple[TrainState, Standing]:
    checkpoints.clear_unfinished()
    start = ensemble.start()
    restored = checkpoints.restore(_kept(start))
    for name, reason in restored.refused:
        log.write("refused", name=name, reason=reason)
    if restored.tree is None:
        return start, Standing()
    states = restored.tree
    if _buffer_is_spent(start):
        states = eqx.tree_at(lambda s: s.buffer.locations, states, start.buffer.locations, is_leaf=_is_none)
    log.write("resumed", epoch=int(states.epoch[0]))
    return states, Standing(**restored.about["standing"])


def _kept(states: TrainState) -> Any:
    """What a checkpoint holds: everything, but for a buffer of one rollout, which the next epoch overwrites unread.

    So a resumed batch ends with the same bits either way, and where the buffer is most of the
    state it need not be stored.
    """
    if _buffer_is_spent(states):
        return eqx.tree_at(lambda s: s.buffer.locations, states, None)
    return states


def _buffer_is_spent(states: TrainState) -> bool:
    # Leading axes: seeds, rollouts.
    return states.buffer.locations.t.shape[1] == 1


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _told(ensemble: Ensemble, states: TrainState, standing: Standing, commit: str, command: str) -> dict[str, Any]:
    """What is known about the training of a batch, plain and finite."""
    epoch = int(states.epoch[0])
    trainer = ensemble.trainer
    return {
        "epochs": epoch,
        "train_seconds": round(standing.seconds, 3),
        "energy_calls": epoch * trainer.calls_per_epoch,
        "last": standing.last,
        "trouble": standing.trouble,
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "commit": commit,
        "command": command,
    }


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
