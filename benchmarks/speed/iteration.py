"""One training iteration, inside the scan of many that the product runs."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from benchmarks.speed.cases import Case, with_iterations
from benchmarks.speed.clock import Program, steady
from benchmarks.speed.counting import compiled_cost, iteration_bytes, iteration_operations
from benchmarks.speed.machine import fast_precision, matmul_rate, on_gpu


def learner(case: Case, iterations: int, precision: str, options: dict[str, Any] | None = None) -> Program:
    """`Trainer`'s own updates, so many to a call."""
    operands, fixed = eqx.partition(with_iterations(case.trainer, iterations), eqx.is_array)
    arrays, rest = eqx.partition(case.state, eqx.is_array)

    def learn(arrays: Any, operands: Any) -> tuple[Any, Any]:
        state, shown = eqx.combine(operands, fixed)._learn(jax.random.key(1), eqx.combine(arrays, rest))
        return eqx.filter(state, eqx.is_array), shown

    return Program(learn, arrays, operands, precision=precision, options=options)


def measured(
    case: Case,
    iterations: int,
    seconds: float,
    precision: str | None = None,
    options: dict[str, Any] | None = None,
    keep: Path | None = None,
) -> dict[str, Any]:
    """Milliseconds an iteration, and how that compares with the machine's rates."""
    precision = precision or fast_precision()
    program = learner(case, iterations, precision, options)
    timing = steady(program, seconds).per(iterations)
    model, dim = case.state.model, case.target.dim
    operations = iteration_operations(case.trainer, model, dim)
    return {
        **timing.in_milliseconds(),
        **program.once(),
        "precision": precision,
        "batch": case.trainer.batch,
        "operations": operations,
        "layerwise_bytes": iteration_bytes(case.trainer, model, dim),
        "tflops": operations / timing.median / 1e12,
        **compiled_cost(program.compiled, None if keep is None else keep / f"iteration-{case.name}.hlo"),
    }


def beside_products(case: Case, iterations: int, rounds: int) -> dict[str, Any]:
    """The same on a machine shared with others: short windows, each between two of plain products.

    The ratio of the two rates in neighbouring windows says what the code does, whatever the
    neighbours do to both.
    """
    program = learner(case, iterations, fast_precision())
    operations = iteration_operations(case.trainer, case.state.model, case.target.dim)
    size = 8192 if on_gpu() else 1024
    jax.block_until_ready(program())
    times, shares, rates = [], [], []
    before = matmul_rate(fast_precision(), size, 0.1)
    for _ in range(rounds):
        times.append(steady(program, 0.0, least=1).median / iterations)
        after = matmul_rate(fast_precision(), size, 0.1)
        rates.append(0.5 * (before + after))
        shares.append(operations / times[-1] / rates[-1])
        before = after
    middle, best = sorted(shares)[len(shares) // 2], max(rates)
    return {
        "median_ms": round(1e3 * sorted(times)[len(times) // 2], 4),
        "least_ms": round(1e3 * min(times), 4),
        "fraction_of_matmul_rate": round(middle, 4),
        "matmul_rate_best_tflops": round(best / 1e12, 4),
        # What it takes where products run at the best rate seen here: cores to itself.
        "undisturbed_ms": round(1e3 * operations / (middle * best), 4),
        "operations": operations,
        "batch": case.trainer.batch,
        "rounds": rounds,
        **program.once(),
        **compiled_cost(program.compiled),
    }
