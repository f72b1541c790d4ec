"""How long a session may last, and whether a batch would fit into what is left of it."""

import math
import time
from collections.abc import Callable

from temperflow.app.reproduce.batch import TRAINED, Batch


class Budget:
    """Seconds from now on.

    Args:
        seconds: how many; None for no end.
        clock: tells the time.

    >>> budget = Budget(10.0, clock=iter([0.0, 4.0, 11.0]).__next__)
    >>> budget.left(), budget.left()
    (6.0, -1.0)
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._end = math.inf if seconds is None else clock() + seconds

    def left(self) -> float:
        """Seconds until the end, negative afterwards."""
        return self._end - self._clock()

    def has_room_for(self, batch: Batch, others: list[Batch], device: str) -> bool:
        """Whether a batch that has not begun would be done in time, at the slowest pace measured so far.

        Where nothing has been measured on this device it may begin: a checkpoint saves what it does.
        """
        if self.left() <= 0.0:
            return False
        paces = [pace for other in others if (pace := _pace(other, device)) is not None]
        return not paces or max(paces) * _work(batch) <= self.left()


def _work(batch: Batch) -> float:
    training = batch.row.config.training
    return float(training.epochs * training.iterations * training.batch * len(batch.seeds))


def _pace(batch: Batch, device: str) -> float | None:
    """Seconds per location and update, compilation and drawing included, if it was measured here."""
    if not batch.trained:
        return None
    told = batch.read_json(TRAINED)
    return told["train_seconds"] / _work(batch) if told["device"] == device and told["epochs"] else None
