"""The rows that train nothing: parallel tempering and tempered SMC at a training's energy calls."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from safetensors.numpy import load, save

from temperflow import targets
from temperflow.app.build import Survey, build, needs_survey, survey_of
from temperflow.app.config import Config
from temperflow.app.files import to_json
from temperflow.app.reproduce.batch import MADE, Batch, draws_file
from temperflow.app.reproduce.measuring import sayable, small
from temperflow.app.reproduce.session import Session
from temperflow.app.run_directory import SURVEY
from temperflow.baselines import Hamiltonian, parallel_tempering, tempered_smc
from temperflow.diagnostics import coverage, coverage_floor, mean_and_spread, w2
from temperflow.proposals.weights import systematic_resample
from temperflow.sampling import Draws
from temperflow.targets import Target

# The shape of parallel tempering: as many copies as keep a device busy, its own default of levels.
REPLICAS, LEVELS = 32, 20
# Particles of the short run that shows how many levels tempered SMC will climb.
PILOT = 256


@dataclass(frozen=True)
class Task:
    """One run of a classical sampler.

    Args:
        seed: of all the randomness.
        target: what to sample.
        source_scale: of the Gaussian it starts from.
        calls: how many it may spend. It spends them but for a rest and its own short pilots, and
            more where they would not last for the draws.
        n: draws a redraw.
        trials: redraws.
    """

    seed: int
    target: Target
    source_scale: float
    calls: int
    n: int
    trials: int

    @property
    def key(self) -> jax.Array:
        """Apart from the keys of exact draws, which come from the same seed."""
        return jax.random.fold_in(jax.random.key(self.seed), 5)

    @property
    def generator(self) -> np.random.Generator:
        """For what is shuffled on the host."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Args:
        x: equally weighted points, leading axes (trials, n).
        log_evidence: its estimate of log Z, and its error.
        energy_calls: what it spent.
    """

    x: np.ndarray
    log_evidence: tuple[float, float]
    energy_calls: int


def temper(task: Task) -> Outcome:
    """Parallel tempering in one long run. The redraws are its draws, shuffled and dealt out."""
    wanted = task.n * task.trials
    draws, _ = parallel_tempering(
        task.key,
        task.target,
        n=wanted,
        replicas=REPLICAS,
        levels=LEVELS,
        sweeps=_sweeps(task.calls, -(-wanted // REPLICAS)),
        source_scale=task.source_scale,
    )
    dealt = np.asarray(draws.x)[task.generator.permutation(wanted)]
    return Outcome(dealt.reshape(task.trials, task.n, -1), _evidence(draws), draws.energy_calls)


def anneal(task: Task) -> Outcome:
    """Tempered SMC. Each redraw is an island of its own; the calls go into moves at every level."""
    for_pilot, for_run = jax.random.split(task.key)
    move, scale = Hamiltonian(), task.source_scale
    pilot, seen = tempered_smc(
        for_pilot, task.target, particles=PILOT, islands=1, moves=2, move=move, source_scale=scale
    )
    each = (task.calls - pilot.energy_calls) // (task.n * task.trials) - 1
    moves = max(1, each // (seen.acceptance.size * move.calls))
    draws, _ = tempered_smc(
        for_run, task.target, particles=task.n, islands=task.trials, moves=moves, move=move, source_scale=scale
    )
    weights = draws.log_weight.reshape(task.trials, task.n)
    points = draws.x.reshape(task.trials, task.n, -1)
    keys = jax.random.split(jax.random.fold_in(task.key, 1), task.trials)
    chosen = [systematic_resample(key, each, task.n) for key, each in zip(keys, weights, strict=True)]
    even = np.stack([np.asarray(x)[np.asarray(index)] for x, index in zip(points, chosen, strict=True)])
    return Outcome(even, _evidence(draws), draws.energy_calls + pilot.energy_calls)


def make(sampler: Callable[[Task], Outcome], wide: bool, batch: Batch, session: Session) -> None:
    """Run it for every seed, as far as the session's time goes."""
    config, target = batch.row.config, targets.get(batch.row.target)
    if needs_survey(config) and batch.survey is None:
        batch.write(SURVEY, to_json(survey_of(config, target, batch.seeds[0]).to_dict()))
    survey = batch.survey
    calls, scale = training_calls(config, target, survey), config.source_scale or target.source_scale
    paid = 0
    if wide:
        scale = config.path.scale or (scale if survey is None else survey.scale)
        paid = 0 if survey is None else survey.energy_calls
    for seed in batch.seeds:
        if batch.drawn(seed):
            continue
        if session.budget.over:
            return
        began = time.monotonic()
        outcome = sampler(Task(seed, target, scale, calls - paid, session.n, session.trials))
        kept = {
            "x": small(outcome.x),
            "log_evidence": np.array(outcome.log_evidence),
            "energy_calls": np.array(outcome.energy_calls + paid),
            "seconds": np.array(time.monotonic() - began),
        }
        batch.write(draws_file(seed), save(kept))
        session.say(f"{batch.row.name}, {batch.row.target}: seed {seed}, {kept['seconds'].item():.0f} s")
    batch.write(MADE, to_json(_told(batch) | session.origin()))


def _told(batch: Batch) -> dict[str, Any]:
    """What is known about the runs: of all seeds together, and of each."""
    stored = {str(seed): load(batch.load(draws_file(seed))) for seed in batch.seeds}
    each = {
        seed: {
            "status": "trained",
            "energy_calls": there["energy_calls"].item(),
            "train_seconds": round(there["seconds"].item(), 3),
            "seeds_together": 1,
        }
        for seed, there in stored.items()
    }
    return {"seconds": round(sum(one["train_seconds"] for one in each.values()), 3), "seeds": each}


def figures(batch: Batch, seed: int) -> dict[str, Any] | None:
    """What equally weighted draws without a density can be asked for, beside the same exact draws and floors."""
    stored, target = load(batch.load(draws_file(seed))), targets.get(batch.row.target)
    x = stored["x"].astype(np.float64)
    trials, n = x.shape[:2]
    value, error = stored["log_evidence"].tolist()
    found: dict[str, Any] = {
        "n": n,
        "trials": trials,
        "evaluation_calls": 0,
        "log_evidence": value,
        "log_evidence_error": error,
        "log_evidence_known": target.log_evidence,
    }
    if target.sample is not None:
        # As `diagnostics.play` draws them, so that rows are measured against the same points.
        keys = [jax.random.split(jax.random.fold_in(jax.random.key(seed), trial)) for trial in range(trials)]
        pairs = [(np.asarray(target.sample(one, n)), np.asarray(target.sample(other, n))) for one, other in keys]
        distances = [w2(mine, exact) for mine, (exact, _) in zip(x, pairs, strict=True)]
        floors = [w2(other, exact) for exact, other in pairs]
        found["w2"], found["w2_spread"] = mean_and_spread(distances)
        found["w2_floor"], found["w2_floor_spread"] = mean_and_spread(floors)
    if target.modes is not None:
        each = [coverage(target.modes, mine) for mine in x]
        found["modes"] = float(np.mean([one.modes for one in each]))
        found["modes_worst"] = int(min(one.modes for one in each))
        found["mode_tv"], found["mode_tv_spread"] = mean_and_spread([one.mode_tv for one in each])
        found["mode_tv_floor"] = coverage_floor(target.modes, n, seed=seed)[0].mode_tv
        found["entropic"] = float(np.mean([one.entropic for one in each]))
    return {name: sayable(value) for name, value in found.items()}


def training_calls(config: Config, target: Target, survey: Survey | None) -> int:
    """Energy calls of a training with these settings, its pilot included."""
    trainer = build(config, target, survey).trainer
    return config.training.epochs * trainer.calls_per_epoch + (0 if survey is None else survey.energy_calls)


def _evidence(draws: Draws) -> tuple[float, float]:
    return float(draws.log_evidence), float(draws.log_evidence_error)


def _sweeps(calls: int, least: int) -> int:
    """The longest last round that the calls allow, all rounds before it and the start counted in."""
    a_sweep = REPLICAS * (1 + (LEVELS - 1) * Hamiltonian().calls)

    def spent(sweeps: int) -> int:
        return REPLICAS * LEVELS + a_sweep * (2 ** (sweeps - 1).bit_length() - 1 + sweeps)

    low, high = least, max(least + 1, calls // a_sweep + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) <= calls else (low, middle)
    return low


# Ways by name, each to be told the batch and the session.
MAKERS: dict[str, Callable[[Batch, Session], None]] = {
    "parallel-tempering": partial(make, temper, False),
    "parallel-tempering+wide": partial(make, temper, True),
    "tempered-smc": partial(make, anneal, False),
    "tempered-smc+wide": partial(make, anneal, True),
}
