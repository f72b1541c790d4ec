"""Training a batch: from wherever it stands to its last epoch, to a signal, or to the end of the time."""

import signal
import time
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx

from temperflow import targets
from temperflow.app import arrays
from temperflow.app.build import needs_survey, survey_of
from temperflow.app.events import EventLog
from temperflow.app.files import to_json
from temperflow.app.loop import DROPPED_SHARE, LOOK_EVERY, SKIPPED_SHARE
from temperflow.app.reproduce.batch import MADE, SAMPLERS, Batch
from temperflow.app.reproduce.ensemble import Ensemble, Look
from temperflow.app.reproduce.session import Session, Stopped
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


def train(batch: Batch, session: Session) -> None:
    """Commit the samplers, or a checkpoint if the session ends before.

    A seed in trouble goes on as it is, and is told to be so: going back to a better state would
    train something else than the recipe. A batch ends early only if none of its seeds has a
    finite number left.

    Raises:
        Stopped: a signal came; the state is committed.
    """
    with EventLog(batch.path / "events.jsonl") as log:
        ensemble = ensemble_of(batch, log)
        states, standing = _restored(batch, ensemble, log)
        with StopRequest() as stop:
            states, done = _run(batch, ensemble, states, standing, session, stop, log)
        if done:
            batch.write(SAMPLERS, arrays.to_bytes({"model": states.average, "bias": states.bias}))
            told = _told(batch, ensemble, states, standing) | session.origin()
            batch.write(MADE, to_json(told))
            log.write("trained", **told)
            batch.forget_checkpoints()


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
    session: Session,
    stop: StopRequest,
    log: EventLog,
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
            session.say(f"{batch.row.name}: epoch {epoch}/{epochs}, {standing.seconds:.0f} s, residuals {shown}")
            told = now
        if not looks[-1].finite.any():
            break
        ended = session.budget.over or stop.number is not None
        if epoch < epochs and (ended or now - committed >= session.checkpoint_every):
            batch.checkpoints.save(epoch, _kept(states), {"standing": vars(standing)})
            committed = time.monotonic()
        if stop.number is not None and epoch < epochs:
            log.write("interrupted", epoch=epoch, signal=signal.Signals(stop.number).name)
            raise Stopped(stop.number, f"epoch {epoch} of {epochs} of {batch.row.name}")
        if ended and epoch < epochs:
            log.write("time is up", epoch=epoch)
            return states, False
    return states, True


def _note_trouble(standing: Standing, ensemble: Ensemble, look: Look, epoch: int) -> None:
    """What the loop of a single run would have gone back for."""
    trainer = ensemble.trainer
    locations = trainer.locations_per_epoch
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


def _restored(batch: Batch, ensemble: Ensemble, log: EventLog) -> tuple[TrainState, Standing]:
    checkpoints = batch.checkpoints
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


def _told(batch: Batch, ensemble: Ensemble, states: TrainState, standing: Standing) -> dict[str, Any]:
    """What is known about the training of a batch, plain and finite: of all seeds, and of each."""
    epoch, trainer, survey = int(states.epoch[0]), ensemble.trainer, batch.survey
    locations = trainer.locations_per_epoch
    each = {}
    for index, seed in enumerate(map(str, ensemble.seeds)):
        trouble = standing.trouble.get(seed)
        last = {name: values[index] for name, values in standing.last.items()}
        dropped = last["dropped"]
        each[seed] = {
            "status": "diverged" if trouble and trouble["last"] == epoch else "trained",
            "trouble": trouble,
            "residual": last["residual"],
            "loss": last["loss"],
            "dropped": None if dropped is None else dropped / locations,
            "energy_calls": epoch * trainer.calls_per_epoch + (0 if survey is None else survey.energy_calls),
            "train_seconds": round(standing.seconds, 3),
            "seeds_together": len(ensemble.seeds),
            "epochs": epoch,
        }
    return {"seconds": round(standing.seconds, 3), "seeds": each}


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
