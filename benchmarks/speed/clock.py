"""Times that mean something: compiled apart from run, results waited for, medians with their spread."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax


@dataclass(frozen=True)
class Timing:
    """Seconds a call, over several calls.

    Args:
        median: the middle one.
        least: the shortest, which on a shared machine is the one nobody disturbed.
        spread: distance between the quartiles.
        count: how many there were.
    """

    median: float
    least: float
    spread: float
    count: int

    @classmethod
    def of(cls, seconds: list[float]) -> "Timing":
        quartiles = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [seconds[0]] * 3
        return cls(statistics.median(seconds), min(seconds), quartiles[2] - quartiles[0], len(seconds))

    def per(self, units: int) -> "Timing":
        """The same for one of `units` equal pieces of the call."""
        return Timing(self.median / units, self.least / units, self.spread / units, self.count)

    def in_milliseconds(self) -> dict[str, float]:
        return {
            "median_ms": round(1e3 * self.median, 6),
            "least_ms": round(1e3 * self.least, 6),
            "spread_ms": round(1e3 * self.spread, 6),
            "count": self.count,
        }


def steady(call: Callable[[], Any], seconds: float, least: int = 3) -> Timing:
    """Time `call` for about so many seconds, after one call that does not count."""
    jax.block_until_ready(call())
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < least or time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - begin)
    return Timing.of(taken)


def stopwatch(call: Callable[[], Any]) -> tuple[Any, float]:
    """What the call returns, once it is ready, and the seconds it took."""
    begin = time.perf_counter()
    result = jax.block_until_ready(call())
    return result, time.perf_counter() - begin


class Program:
    """A function compiled ahead, whose first argument is a state that each call replaces.

    Args:
        function: `(state, *others) -> (state, shown)`, over arrays alone.
        state: the first state; it is copied, since every call gives its own away.
        others: arguments that stay.
        precision: of matrix products that do not name one themselves.
        options: for the compiler.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        state: Any,
        *others: Any,
        precision: str = "float32",
        options: dict[str, Any] | None = None,
    ):
        self._state = jax.tree.map(lambda leaf: jax.numpy.array(leaf, copy=True), state)
        self._others = others
        begin = time.perf_counter()
        with jax.default_matmul_precision(precision):
            lowered = jax.jit(function, donate_argnums=0).lower(self._state, *others)
        self.trace_seconds = time.perf_counter() - begin
        self.compiled = lowered.compile(compiler_options=options)
        self.compile_seconds = time.perf_counter() - begin - self.trace_seconds

    def __call__(self) -> Any:
        self._state, shown = self.compiled(self._state, *self._others)
        return shown

    def once(self) -> dict[str, float]:
        """What comes before the first step."""
        return {"trace_seconds": round(self.trace_seconds, 3), "compile_seconds": round(self.compile_seconds, 3)}
