"""From trained samplers to figures: draws where the accelerator is, arithmetic wherever there is time."""

import math
from dataclasses import asdict
from typing import Any

import equinox as eqx
import jax
import numpy as np
from safetensors.numpy import load, save

from temperflow import targets
from temperflow.app.files import to_json
from temperflow.app.reproduce.batch import DRAWS, METRICS, TEMPERATURES, Batch
from temperflow.app.reproduce.ensemble import Ensemble
from temperflow.app.reproduce.training import ensemble_of, trained_states
from temperflow.diagnostics import Rounds, elbo, eubo, mean_and_spread, play, summarise
from temperflow.models import Model
from temperflow.proposals import Transport, rollout
from temperflow.sampling import Sampler
from temperflow.training import TrainState


def draw(batch: Batch, n: int, trials: int) -> None:
    """Play every seed's rounds and keep them, unless they are there.

    Each seed is evaluated with random numbers of its own, so that the spread over seeds holds
    that of the evaluation as well. A seed whose parameters are not finite has no draws.
    """
    if batch.has(DRAWS):
        return
    ensemble = ensemble_of(batch)
    states, target = trained_states(batch, ensemble), targets.get(batch.row.target)
    kept: dict[str, np.ndarray] = {}
    for index, seed in enumerate(batch.seeds):
        sampler = _flow_only(ensemble.sampler(states, index))
        if not _finite(sampler.model):
            continue
        rounds = play(sampler, target, n, trials, seed)
        kept |= {f"{seed}.{name}": _small(value) for name, value in vars(rounds).items() if value is not None}
    # A file of nothing is no file: what was asked for is told beside the draws.
    kept["asked"] = np.array([n, trials])
    batch.write(DRAWS, save(kept))


def measure(batch: Batch) -> None:
    """Figures of every seed that has draws, unless they are there. No accelerator needed: W2 is what takes long."""
    if batch.has(METRICS):
        return
    found: dict[str, Any] = {}
    for seed in batch.seeds:
        rounds = rounds_of(batch, seed)
        found[str(seed)] = None if rounds is None else figures(rounds, batch, seed)
    batch.write(METRICS, to_json(found))


def figures(rounds: Rounds, batch: Batch, seed: int) -> dict[str, Any]:
    """`Metrics`, the spreads over trials that it pools, and what is left where a bound is infinite."""
    metrics = asdict(summarise(rounds, targets.get(batch.row.target), seed))
    found = {name: _sayable(value) for name, value in metrics.items()}
    below = rounds.log_weight
    found["elbo_spread"] = _sayable(mean_and_spread([elbo(each).value for each in below])[1])
    found["weightless"] = float(np.mean(~np.isfinite(below)))
    found["elbo_where_known"] = _mean_of_finite(below)
    if rounds.exact_log_weight is not None:
        above = rounds.exact_log_weight
        found["eubo_spread"] = _sayable(mean_and_spread([eubo(each).value for each in above])[1])
        found["unknown_density"] = float(np.mean(~np.isfinite(above)))
        found["eubo_where_known"] = _mean_of_finite(above)
    return found


def rounds_of(batch: Batch, seed: int) -> Rounds | None:
    """A seed's rounds as they were played; None where its parameters were not finite."""
    stored = load(batch.load(DRAWS))
    mine = {name.partition(".")[2]: value for name, value in stored.items() if name.startswith(f"{seed}.")}
    if not mine:
        return None

    def wide(name: str) -> np.ndarray:
        return mine[name].astype(np.float64)

    def wide_if_known(name: str) -> np.ndarray | None:
        return wide(name) if name in mine else None

    return Rounds(
        wide("x"),
        wide("log_weight"),
        wide_if_known("exact"),
        wide_if_known("other"),
        wide_if_known("exact_log_weight"),
        mine["free_energy"].item(),
        mine["energy_calls"].item(),
    )


def temperatures(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """β of the walkers of a fresh rollout at t = 1, before and after the first seed's training; kept once made."""
    if not batch.has(TEMPERATURES):
        ensemble = ensemble_of(batch)
        states = trained_states(batch, ensemble)
        kept = {
            "before": _temperatures(ensemble, ensemble.one(ensemble.start(), 0)),
            "after": _temperatures(ensemble, ensemble.one(states, 0)),
        }
        batch.write(TEMPERATURES, save(kept))
    stored = load(batch.load(TEMPERATURES))
    return stored["before"], stored["after"]


def _temperatures(ensemble: Ensemble, state: TrainState) -> np.ndarray:
    trainer = ensemble.trainer
    proposal = trainer.proposal_at(state)
    times = np.linspace(0.0, 1.0, trainer.steps + 1, dtype=np.float32)

    @eqx.filter_jit
    def beta_at_the_end(proposal: Any, model: Model) -> jax.Array:
        last = rollout(jax.random.key(1), proposal, model, trainer.walkers, jax.numpy.asarray(times)).last
        return jax.vmap(proposal.joint.beta)(last.xi)

    return np.asarray(beta_at_the_end(proposal, state.average))


def _flow_only(sampler: Sampler) -> Sampler:
    """The same flow behind the simplest proposal: rows that differ in theirs then share their programs."""
    joint = sampler.proposal.untempered().joint
    return Sampler(sampler.model, Transport(joint, sampler.proposal.target), sampler.flow)


def _finite(model: Model) -> bool:
    return all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


def _small(value: Any) -> np.ndarray:
    """In single precision where that loses nothing."""
    wide = np.asarray(value)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32) if wide.dtype == np.float64 else wide
    return np.ascontiguousarray(narrow if np.array_equal(narrow, wide, equal_nan=True) else wide)


def _mean_of_finite(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _sayable(value: Any) -> Any:
    """None for what JSON cannot say."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
