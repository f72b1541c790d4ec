"""How long a session may last, and whether a batch would fit into what is left of it."""

import math
import time
from collections.abc import Callable


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

    @property
    def over(self) -> bool:
        """Whether the end has come."""
        return self.left() <= 0.0
