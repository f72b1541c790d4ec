"""One rollout, and one epoch: a rollout and the updates that follow it."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from benchmarks.speed.cases import Case
from benchmarks.speed.clock import Program, Timing, steady, stopwatch
from benchmarks.speed.counting import compiled_cost, rollout_operations
from benchmarks.speed.machine import fast_precision
from temperflow.app.stepper import Stepper
from temperflow.proposals import Langevin, Splitting
from temperflow.training import TrainState


def explorer(case: Case, options: dict[str, Any] | None = None) -> Program:
    """`Trainer`'s own rollout into the buffer, to the horizon 1."""
    operands, fixed = eqx.partition(case.trainer, eqx.is_array)
    arrays, rest = eqx.partition(case.state, eqx.is_array)

    def explore(arrays: Any, operands: Any) -> tuple[Any, Any]:
        state = eqx.combine(arrays, rest)
        key = jax.random.fold_in(jax.random.key(state.seed), state.epoch)
        state, seen = eqx.combine(operands, fixed)._explore(key, state, jnp.ones(()))
        return eqx.filter(state, eqx.is_array), seen

    return Program(explore, arrays, operands, precision=fast_precision(), options=options)


def rollout(
    case: Case, seconds: float, options: dict[str, Any] | None = None, keep: Path | None = None
) -> dict[str, Any]:
    """Milliseconds a rollout and microseconds a step of it."""
    program = explorer(case, options)
    timing = steady(program, seconds)
    proposal = case.trainer.proposal
    splitting = isinstance(proposal, Langevin) and isinstance(proposal.integrator, Splitting)
    operations = rollout_operations(case.trainer, case.state.model, case.target.dim, splitting)
    return {
        **timing.in_milliseconds(),
        **program.once(),
        "walkers": case.trainer.walkers,
        "steps": case.trainer.steps,
        "microseconds_a_step": round(1e6 * timing.median / case.trainer.steps, 2),
        "operations": operations,
        "tflops": operations / timing.median / 1e12,
        **compiled_cost(program.compiled, None if keep is None else keep / f"rollout-{case.name}.hlo"),
    }


def epoch(case: Case, seconds: float, most: int) -> dict[str, Any]:
    """Epochs through the product's own `Stepper`, from before its first compilation."""
    trainer = case.trainer
    with jax.default_matmul_precision(fast_precision()):
        start = trainer.start(case.built.model, 0)
        stepper = Stepper(trainer, start)
        state, first = _timed(stepper, start, 1)
        state, second = _timed(stepper, state, 1)
        rounds = 4
        each = max(1, min(most // rounds, int(seconds / rounds / second)))
        taken = []
        for _ in range(rounds):
            state, duration = _timed(stepper, state, each)
            taken.append(duration / each)
    timing = Timing.of(taken)
    return {
        **timing.in_milliseconds(),
        "epochs": rounds * each,
        "iterations": trainer.iterations,
        "first_epoch_seconds": round(first, 3),
        "training_seconds_projected": round(case.built.config.training.epochs * timing.median, 3),
        "training_epochs": case.built.config.training.epochs,
        "skipped": int(state.skipped),
    }


def _timed(stepper: Stepper, state: TrainState, count: int) -> tuple[TrainState, float]:
    """So many epochs; `run` comes back only when their findings are on the host."""
    (state, _), seconds = stopwatch(lambda: stepper.run(state, count))
    return state, seconds
