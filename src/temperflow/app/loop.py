"""The host's loop over epochs: what lies between two of them is all that is not mathematics."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from temperflow.app.checkpoint import Checkpoints
from temperflow.app.errors import Interrupted, NumericalError
from temperflow.app.events import EventLog
from temperflow.app.signals import StopRequest
from temperflow.app.stepper import Anchor, Epoch, Stepper
from temperflow.training import Trainer, TrainState

# The host looks in about twice a second: rarely enough to cost nothing, often enough to be told.
LOOK_EVERY = 0.5
# A checkpoint is due when it costs at most a sixtieth of the time since the last one.
COST_SHARE = 1.0 / 60.0
# Trouble: more than one update of an epoch not made, and more than this share of them ...
SKIPPED_SHARE = 0.1
# ... or more than this share of the locations of a rollout without finite numbers.
DROPPED_SHARE = 0.9
# Anchors at every twentieth of the run: by epoch, not by clock, so that going back to one
# leads to the same numbers whenever the run was interrupted.
ANCHORS = 20


@dataclass
class Journey:
    """Where a run stands.

    Args:
        state: what trains.
        anchor: where to go back to.
        seconds: time spent training so far, all processes together.
    """

    state: TrainState
    anchor: Anchor
    seconds: float = 0.0

    def to_tree(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"state": self.state, "anchor": self.anchor.parts}


@dataclass(frozen=True)
class Loop:
    """Takes a journey to its last epoch.

    Args:
        trainer: for its counts.
        stepper: runs the epochs.
        fresh: makes the state before the first epoch, whose buffer is empty.
        epochs: the last one's number.
        checkpoints: where to commit.
        log: where to tell.
        calls_before: target calls made before training.
        checkpoint_every: seconds between checkpoints, at least.
        name: the run directory, for messages.
    """

    trainer: Trainer
    stepper: Stepper
    fresh: Callable[[], TrainState]
    epochs: int
    checkpoints: Checkpoints
    log: EventLog
    calls_before: int
    checkpoint_every: float
    name: str

    def run(self, journey: Journey, stop: StopRequest) -> Journey:
        """To the end, or to a signal, or into trouble that going back once does not cure.

        Raises:
            Interrupted: a signal came; the state is committed.
            NumericalError: trouble for the second time; the last good state stays committed.
        """
        epoch, pace, committed = int(journey.state.epoch), 1, None
        spacing = max(1, self.epochs // ANCHORS)
        last_commit, last_cost = time.monotonic(), 0.0
        skipped = int(journey.state.skipped)
        while epoch < self.epochs:
            count = min(pace, self.epochs - epoch, spacing - epoch % spacing)
            began = time.monotonic()
            journey.state, done = self.stepper.run(journey.state, count)
            took = time.monotonic() - began
            bad = self._first_in_trouble(done, skipped)
            good = done if bad is None else done[: done.index(bad[0]) + 1]
            self._record(good, journey.seconds, took / count)
            journey.seconds += took
            if bad is not None:
                self._go_back(journey, *bad)
                epoch, skipped = int(journey.state.epoch), int(journey.state.skipped)
                continue
            epoch, skipped = epoch + count, int(done[-1].shown["skipped"])
            pace = max(1, int(LOOK_EVERY * count / max(took, 1e-6)))
            at_anchor = epoch % spacing == 0
            if at_anchor:
                journey.anchor = Anchor.of(journey.state)
            waited = time.monotonic() - last_commit
            due = waited >= max(self.checkpoint_every, last_cost / COST_SHARE)
            due |= at_anchor and epoch == spacing  # so that trouble finds something kept
            if due or stop.number is not None:
                last_cost = self._commit(journey, epoch)
                last_commit, committed = time.monotonic(), epoch
            if stop.number is not None and epoch < self.epochs:
                raise self._interrupted(stop.number, epoch)
        if committed != self.epochs:
            self._commit(journey, epoch)
        return journey

    def _record(self, done: list[Epoch], seconds: float, each: float) -> None:
        per_epoch = self.trainer.calls_per_epoch
        self.log.write_all(
            {
                "kind": "epoch",
                "epoch": epoch.epoch,
                "epochs": self.epochs,
                "seconds": round(seconds + each * (index + 1), 4),
                "energy_calls": self.calls_before + per_epoch * epoch.epoch,
                **epoch.shown,
            }
            for index, epoch in enumerate(done)
        )

    def _first_in_trouble(self, done: list[Epoch], skipped: int) -> tuple[Epoch, str] | None:
        trainer = self.trainer
        locations = trainer.locations_per_epoch
        for epoch in done:
            missed, dropped = int(epoch.shown["skipped"]) - skipped, int(epoch.shown["dropped"])
            if not epoch.finite:
                return epoch, "parameters that are not finite"
            if missed > max(1, SKIPPED_SHARE * trainer.iterations):
                return epoch, f"{missed} of {trainer.iterations} updates that would not have been finite"
            if dropped > DROPPED_SHARE * locations:
                return epoch, f"{dropped} of {locations} locations without finite numbers"
            skipped += missed
        return None

    def _go_back(self, journey: Journey, epoch: Epoch, reason: str) -> None:
        """To the anchor with half the patience; the second time there is no going back."""
        if float(journey.state.patience) < 1.0:
            kept = self.checkpoints.names()
            self.log.write("failed", epoch=epoch.epoch, reason=reason, kept=kept)
            self.log.sync()
            place = f"{self.name}/checkpoints" if kept else "none: it was the first epochs that failed"
            raise NumericalError(
                got=f"{reason} in epoch {epoch.epoch}, again after going back with half the learning rate",
                expected=f"finite numbers (last good state: {place})",
                todo="start a new directory with a lower training.learning_rate, and check the target's value and "
                "gradient far from its mass",
            )
        journey.state = self.stepper.rolled_back(journey.anchor, self.fresh())
        to, patience = int(journey.state.epoch), float(journey.state.patience)
        self.log.write("rolled_back", epoch=to, trouble=epoch.epoch, reason=reason, patience=patience)

    def _commit(self, journey: Journey, epoch: int) -> float:
        """Save, tell, and return what it cost in seconds."""
        began = time.monotonic()
        jax.block_until_ready(journey.state.epoch)
        size = self.checkpoints.save(epoch, journey.to_tree(), {"seconds": round(journey.seconds, 4)})
        self.log.sync()
        cost = time.monotonic() - began
        self.log.write("checkpoint", epoch=epoch, bytes=size, cost_seconds=round(cost, 4))
        return cost

    def _interrupted(self, number: int, epoch: int) -> Interrupted:
        self.log.write("interrupted", epoch=epoch, signal=signal.Signals(number).name)
        self.log.sync()
        return Interrupted(number, f"epoch {epoch} of {self.epochs}", self.name)
