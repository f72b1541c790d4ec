"""From trained samplers to figures: draws where the accelerator is, arithmetic wherever there is time."""

import math
from dataclasses import asdict
from typing import Any

import equinox as eqx
import jax
import numpy as np
from safetensors.numpy import load, save

from temperflow import targets
from temperflow.app.reproduce.batch import TEMPERATURES, Batch, draws_file
from temperflow.app.reproduce.ensemble import Ensemble
from temperflow.app.reproduce.session import Session
from temperflow.app.reproduce.training import ensemble_of, trained_states
from temperflow.diagnostics import Rounds, elbo, eubo, mean_and_spread, play, summarise
from temperflow.models import Model
from temperflow.proposals import Proposal, Transport, rollout
from temperflow.sampling import Sampler
from temperflow.training import TrainState


def draw(batch: Batch, session: Session) -> None:
    """Play every seed's rounds and keep them, as far as the session's time goes.

    Each seed is evaluated with random numbers of its own, so that the spread over seeds holds
    that of the evaluation as well. A seed whose parameters are not finite has no draws. The
    first seed's walkers show their temperatures, if they have any but one.
    """
    ensemble = ensemble_of(batch)
    states, target = trained_states(batch, ensemble), targets.get(batch.row.target)
    if batch.row.config.proposal.kind == "tempered" and not batch.has(TEMPERATURES):
        batch.write(TEMPERATURES, save(_temperatures(ensemble, states)))
    for index, seed in enumerate(batch.seeds):
        if batch.drawn(seed) or session.budget.over:
            continue
        sampler = _flow_only(ensemble.sampler(states, index))
        kept: dict[str, np.ndarray] = {}
        if _finite(sampler.model):
            rounds = play(sampler, target, session.n, session.trials, seed)
            kept = {name: small(value) for name, value in vars(rounds).items() if value is not None}
        batch.write(draws_file(seed), save(kept))


def figures(batch: Batch, seed: int) -> dict[str, Any] | None:
    """`Metrics`, the spreads over trials that it pools, and what is left where a bound is infinite.

    None for a seed without draws. No accelerator needed: W2 is what takes long.
    """
    rounds = rounds_of(batch, seed)
    if rounds is None:
        return None
    metrics = asdict(summarise(rounds, targets.get(batch.row.target), seed))
    # Measuring costs calls too; those are kept apart from what training cost.
    metrics["evaluation_calls"] = metrics.pop("energy_calls")
    found = {name: sayable(value) for name, value in metrics.items()}
    below = rounds.log_weight
    found["elbo_spread"] = sayable(mean_and_spread([elbo(each).value for each in below])[1])
    found["weightless"] = float(np.mean(~np.isfinite(below)))
    found["elbo_where_known"] = _mean_of_finite(below)
    if rounds.exact_log_weight is not None:
        above = rounds.exact_log_weight
        found["eubo_spread"] = sayable(mean_and_spread([eubo(each).value for each in above])[1])
        found["unknown_density"] = float(np.mean(~np.isfinite(above)))
        found["eubo_where_known"] = _mean_of_finite(above)
    return found


def rounds_of(batch: Batch, seed: int) -> Rounds | None:
    """A seed's rounds as they were played; None where its parameters were not finite."""
    stored = load(batch.load(draws_file(seed)))
    if not stored:
        return None

    def wide(name: str) -> np.ndarray:
        return stored[name].astype(np.float64)

    def wide_if_known(name: str) -> np.ndarray | None:
        return wide(name) if name in stored else None

    return Rounds(
        wide("x"),
        wide("log_weight"),
        wide_if_known("exact"),
        wide_if_known("other"),
        wide_if_known("exact_log_weight"),
        stored["free_energy"].item(),
        stored["energy_calls"].item(),
    )


def small(value: Any) -> np.ndarray:
    """In single precision where that loses nothing."""
    wide = np.asarray(value)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32) if wide.dtype == np.float64 else wide
    return np.ascontiguousarray(narrow if np.array_equal(narrow, wide, equal_nan=True) else wide)


def sayable(value: Any) -> Any:
    """None for what JSON cannot say."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _temperatures(ensemble: Ensemble, states: TrainState) -> dict[str, np.ndarray]:
    """β of the walkers of a fresh rollout at t = 1, before and after the first seed's training."""
    trainer = ensemble.trainer
    times = np.linspace(0.0, 1.0, trainer.steps + 1, dtype=np.float32)

    @eqx.filter_jit
    def beta_at_the_end(proposal: Proposal, model: Model) -> jax.Array:
        last = rollout(jax.random.key(1), proposal, model, trainer.walkers, jax.numpy.asarray(times)).last
        return jax.vmap(proposal.joint.beta)(last.xi)

    found = {}
    for name, stacked in (("before", ensemble.start()), ("after", states)):
        state = ensemble.one(stacked, 0)
        found[name] = np.asarray(beta_at_the_end(trainer.proposal_at(state), state.average))
    return found


def _flow_only(sampler: Sampler) -> Sampler:
    """The same flow behind the simplest proposal: rows that differ in theirs then share their programs."""
    joint = sampler.proposal.untempered().joint
    return Sampler(sampler.model, Transport(joint, sampler.proposal.target), sampler.flow)


def _finite(model: Model) -> bool:
    return all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


def _mean_of_finite(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None
