"""What can be found out about a trained sampler without knowing the truth."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from temperflow.app.exploring import WALKERS, fresh_rollout
from temperflow.app.verdict_reference import LogZ, Reference, Witness, log_z
from temperflow.models import ExactDivergence
from temperflow.proposals import Rollout, target_calls
from temperflow.sampling import Sampler
from temperflow.sampling.pareto import pareto_khat
from temperflow.training import Location, locations_of, residuals

# Draws of each of the two halves, of annealing, and of tempered annealing.
HALF, ANNEALED, TEMPERED = 2048, 1024, 256
# Places at which the residual is evaluated, in so many equal slices of t.
LOCATIONS, SLICES = 4096, 8


@dataclass(frozen=True)
class Evidence:
    r"""Everything the verdict is drawn from, as plain numbers. Shares are of one.

    Args:
        flow: log Z by both halves of the flow's draws together.
        halves: log Z by each half.
        anneal: log Z by controlled annealing at temperature one.
        temper: log Z by the tempered dynamics; None for a sampler without tempering.
        believed: $-F_\theta(1, 1)$.
        reference: log Z by the annealed witness.
        reference_settled: as in `Reference`.
        swapped: log Z by parallel tempering.
        round_trips: as in `Reference`.
        ess: effective share of the flow's weights.
        khat: Pareto shape of their tail.
        anneal_ess: effective share of the annealed draws.
        anneal_khat: Pareto shape of their tail.
        gap: $\log\hat Z - E_q\log w$, an estimate of $KL(q\|\pi)$.
        reference_gap: $E_\pi\log w - \log\hat Z$ at the annealed witness's draws, an estimate of
            $KL(\pi\|q)$; `missed` draws count with the threshold's value.
        missed: share of its draws where the flow has under a hundredth of the density due.
        missed_count: how many draws that is.
        swapped_missed: the same of parallel tempering.
        swapped_missed_count: how many draws that is.
        non_finite: share of flow draws without a finite weight.
        dead: share of the walkers that met a number that was not finite.
        cold_share: share of the tempered walkers, unweighted, that end at temperature one.
        cold_share_due: the same were F exact.
        drift: $\int_0^1 \mathrm{median}|r|\,dt$ over cold locations.
        drift_hot: the same over locations at β < 1; None for a sampler without tempering.
        residual: quantiles of |r| by slice of t; a row is (t, 50 %, 90 %, 99 %).
        residual_hot: the same at β < 1.
        energy_calls: spent on all this.
    """

    flow: LogZ
    halves: tuple[LogZ, LogZ]
    anneal: LogZ
    temper: LogZ | None
    believed: float
    reference: LogZ
    reference_settled: bool
    swapped: LogZ
    round_trips: int
    ess: float
    khat: float
    anneal_ess: float
    anneal_khat: float
    gap: float
    reference_gap: float
    missed: float
    missed_count: int
    swapped_missed: float
    swapped_missed_count: int
    non_finite: float
    dead: float
    cold_share: float | None
    cold_share_due: float | None
    drift: float
    drift_hot: float | None
    residual: tuple[tuple[float, ...], ...]
    residual_hot: tuple[tuple[float, ...], ...]
    energy_calls: int

    def to_dict(self) -> dict[str, Any]:
        """By name, in plain types."""
        return asdict(self)


# A draw counts as missed where log w exceeds log Z by this: the flow has 1 % of the density due.
MISSED = math.log(100.0)


def gather(sampler: Sampler, reference: Reference, seed: int = 0) -> Evidence:
    """Draw in every way the sampler can, look at its residual, and hold it against the reference."""
    halves = [sampler.sample(HALF, seed=2 * seed + half + 1) for half in (0, 1)]
    annealed = sampler.sample(ANNEALED, seed=seed, method="anneal")
    tempered = None if sampler.proposal.joint.tempering is None else sampler.sample(TEMPERED, seed, "temper")
    log_weight = np.concatenate([np.asarray(half.log_weight, np.float64) for half in halves])
    flow = _pooled(log_weight)
    # -inf is a draw without weight: it counts in n and drags the mean down as it should.
    over, swapped_over = (_log_weight_over(sampler, seen) for seen in (reference.annealed, reference.swapped))
    known = log_weight[np.isfinite(log_weight)]
    gap = flow.value - float(np.mean(known)) if known.size else math.inf
    look = jax.random.fold_in(jax.random.key(seed), 3)
    run = fresh_rollout(jax.random.fold_in(look, 0), sampler.proposal, sampler.model, WALKERS, sampler.steps)
    seen = _looked_over(sampler, jax.random.fold_in(look, 1), run)
    anneal_weight = np.asarray(annealed.log_weight, np.float64)
    runs = [*halves, annealed, *([] if tempered is None else [tempered])]
    proposal = sampler.proposal
    calls = sum(run.energy_calls for run in runs) + target_calls(proposal, WALKERS, sampler.steps)
    return Evidence(
        flow=flow,
        halves=(log_z(halves[0]), log_z(halves[1])),
        anneal=log_z(annealed),
        temper=None if tempered is None else log_z(tempered),
        believed=-sampler.free_energy,
        reference=reference.annealed.log_evidence,
        reference_settled=reference.settled,
        swapped=reference.swapped.log_evidence,
        round_trips=reference.round_trips,
        ess=_ess(log_weight),
        khat=pareto_khat(log_weight),
        anneal_ess=_ess(anneal_weight),
        anneal_khat=pareto_khat(anneal_weight),
        gap=gap,
        reference_gap=float(np.mean(np.minimum(over, MISSED))),
        missed=float(np.mean(over > MISSED)),
        missed_count=int(np.sum(over > MISSED)),
        swapped_missed=float(np.mean(swapped_over > MISSED)),
        swapped_missed_count=int(np.sum(swapped_over > MISSED)),
        non_finite=float(np.mean(~np.isfinite(log_weight))),
        dead=float(seen.dead),
        cold_share=None if tempered is None else float(seen.cold_share),
        cold_share_due=None if tempered is None else float(seen.cold_share_due),
        energy_calls=reference.energy_calls + calls,
        **_residual_figures(seen, tempered is not None),
    )


class _Seen(eqx.Module):
    """A fresh rollout: where it went and what residual is there."""

    t: Float[Array, " n"]
    beta: Float[Array, " n"]
    residual: Float[Array, " n"]
    dead: Float[Array, ""]
    cold_share: Float[Array, ""]
    cold_share_due: Float[Array, ""]


@eqx.filter_jit
def _looked_over(sampler: Sampler, key: PRNGKeyArray, run: Rollout) -> _Seen:
    joint = sampler.proposal.joint
    everywhere = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), locations_of(run, joint))
    chosen = jax.random.randint(key, (LOCATIONS,), 0, everywhere.t.size)
    places: Location = jax.tree.map(lambda leaf: leaf[chosen], everywhere)
    divergence, no_key = ExactDivergence(), jax.random.key(0)

    def at(place: Location) -> Float[Array, ""]:
        return residuals(no_key, sampler.model, place, joint.continuum, divergence)[0]

    found = jax.lax.map(at, places, batch_size=1024)
    beta = jax.vmap(joint.beta)(run.last.xi)
    due = jnp.ones(())
    if joint.tempering is not None:
        due = jnp.exp(joint.tempering.log_cold_share())
    return _Seen(
        places.t,
        places.beta,
        # Dead walkers are counted elsewhere; a residual that is not finite is as large as can be.
        jnp.where(places.valid, jnp.where(jnp.isfinite(found), found, jnp.inf), jnp.nan),
        jnp.mean((run.last.status > 0).astype(beta.dtype)),
        jnp.mean((beta == 1.0).astype(beta.dtype)),
        due,
    )


def _residual_figures(seen: _Seen, tempered: bool) -> dict[str, Any]:
    t, beta, size = (np.asarray(part, np.float64) for part in (seen.t, seen.beta, seen.residual))
    cold, hot = _quantiles(t, np.abs(size), beta == 1.0), _quantiles(t, np.abs(size), beta < 1.0)
    return {
        "drift": _drift(cold),
        "drift_hot": _drift(hot) if tempered else None,
        "residual": cold,
        "residual_hot": hot,
    }


def _drift(rows: tuple[tuple[float, ...], ...]) -> float:
    """A slice that nobody visited says nothing; those that were visited stand for it."""
    return float(np.mean([row[1] for row in rows])) if rows else math.inf


def _quantiles(t: NDArray[Any], size: NDArray[Any], kept: NDArray[Any]) -> tuple[tuple[float, ...], ...]:
    rows = []
    for index in range(SLICES):
        inside = kept & (np.floor(np.minimum(t, 1 - 1e-6) * SLICES) == index) & ~np.isnan(size)
        if np.any(inside):
            # No interpolation: between two infinities it gives NaN.
            shares = np.quantile(size[inside], (0.5, 0.9, 0.99), method="inverted_cdf")
            rows.append(((index + 0.5) / SLICES, *(float(share) for share in shares)))
    return tuple(rows)


def _log_weight_over(sampler: Sampler, witness: Witness) -> NDArray[np.float64]:
    """log w - log Z of the flow at the witness's draws; plus infinity where it cannot have made them."""
    log_q = np.asarray(sampler.log_density(jnp.asarray(witness.x)), np.float64)
    over = witness.log_density - log_q - witness.log_evidence.value
    return np.where(np.isnan(over), np.inf, over)


def _pooled(log_weight: NDArray[np.float64]) -> LogZ:
    largest = log_weight.max()
    if not np.isfinite(largest):
        return LogZ(-math.inf, math.inf)
    weight = np.exp(log_weight - largest)
    error = float(np.std(weight, ddof=1) / (weight.mean() * math.sqrt(weight.size)))
    return LogZ(float(largest + np.log(weight.mean())), error)


def _ess(log_weight: NDArray[np.float64]) -> float:
    largest = log_weight.max()
    if not np.isfinite(largest):
        return 0.0
    weight = np.exp(log_weight - largest)
    return float(weight.sum() ** 2 / (weight.size * np.sum(weight**2)))
