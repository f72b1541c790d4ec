"""What draws cost once training is over."""

from typing import Any

import jax

from benchmarks.speed.cases import Case
from benchmarks.speed.clock import steady, stopwatch
from benchmarks.speed.machine import fast_precision


def draws(case: Case, flow: int, annealed: int, seconds: float) -> dict[str, Any]:
    """Draws a second: by the flow with its exact density, backwards through it, and by annealing."""
    sampler = case.built.sampler(case.state)
    found: dict[str, Any] = {}
    with jax.default_matmul_precision(fast_precision()):
        for method, n in (("flow", flow), ("anneal", annealed)):
            made, first = stopwatch(lambda method=method, n=n: sampler.sample(n, seed=0, method=method))
            timing = steady(lambda method=method, n=n: sampler.sample(n, seed=1, method=method).x, seconds)
            found[method] = {
                "draws": n,
                "draws_a_second": round(n / timing.median),
                "energy_calls_a_draw": made.energy_calls / n,
                "first_call_seconds": round(first, 3),
                **timing.in_milliseconds(),
            }
        points = sampler.sample(flow, seed=0).x
        timing = steady(lambda: sampler.log_density(points), seconds)
        found["log_density"] = {"points_a_second": round(flow / timing.median), **timing.in_milliseconds()}
    return found
