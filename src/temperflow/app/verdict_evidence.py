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

from temperflow.baselines import survey, tempered_smc
from temperflow.models import ExactDivergence
from temperflow.proposals import rollout, target_calls
from temperflow.sampling import Draws, Sampler
from temperflow.sampling.pareto import pareto_khat
from temperflow.targets import Target
from temperflow.training import Location, locations_of, residuals

# Draws of each of the two halves, and of annealing; walkers of the look at the residual.
HALF, ANNEALED, WALKERS = 2048, 1024, 256
# Places at which the residual is evaluated, in so many equal slices of t.
LOCATIONS, SLICES = 4096, 8
# Particles and islands of the reference; draws of it that are asked for the flow's density.
PARTICLES, ISLANDS, ASKED = 256, 16, 1024
# The reference starts wider than the domain it found: what it sees must not depend on that find.
WIDER = 1.5


@dataclass(frozen=True)
class LogZ:
    """An estimate of log Z and its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class Reference:
    """What tempered SMC from a wide start says of the target; it knows nothing of the sampler.

    Args:
        x: equally weighted draws.
        log_density: the target's, at them.
        log_evidence: log Z.
        scale: root mean square of a coordinate.
        settled: whether wider starts had stopped finding more.
        energy_calls: what it cost.
    """

    x: NDArray[np.float32]
    log_density: NDArray[np.float64]
    log_evidence: LogZ
    scale: float
    settled: bool
    energy_calls: int


@dataclass(frozen=True)
class Evidence:
    r"""Everything the verdict is drawn from, as plain numbers. Shares are of one.

    Args:
        flow: log Z by both halves of the flow's draws together.
        halves: log Z by each half.
        anneal: log Z by controlled annealing at temperature one.
        temper: log Z by the tempered dynamics; None for a sampler without tempering.
        believed: $-F_\theta(1, 1)$.
        reference: log Z by the reference.
        reference_settled: as in `Reference`.
        ess: effective share of the flow's weights.
        khat: Pareto shape of their tail.
        anneal_ess: effective share of the annealed draws.
        anneal_khat: Pareto shape of their tail.
        gap: $\log\hat Z - E_q\log w$, an estimate of $KL(q\|\pi)$.
        reference_gap: $E_\pi\log w - \log\hat Z$ at the reference's draws, an estimate of $KL(\pi\|q)$;
            `missed` draws count with the threshold's value.
        missed: share of the reference's draws where the flow has under a hundredth of the density due.
        missed_count: how many draws that is.
        non_finite: share of flow draws without a finite weight.
        dead: share of the walkers that met a number that was not finite.
        cold_share: share of the tempered walkers, unweighted, that end at temperature one.
        cold_share_due: the same were F exact.
        drift: $\int_0^1 \mathrm{median}|r|\,dt$ over cold locations.
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
    ess: float
    khat: float
    anneal_ess: float
    anneal_khat: float
    gap: float
    reference_gap: float
    missed: float
    missed_count: int
    non_finite: float
    dead: float
    cold_share: float | None
    cold_share_due: float | None
    drift: float
    residual: tuple[tuple[float, ...], ...]
    residual_hot: tuple[tuple[float, ...], ...]
    energy_calls: int

    def to_dict(self) -> dict[str, Any]:
        """By name, in plain types."""
        return asdict(self)


# A draw counts as missed where log w exceeds log Z by this: the flow has 1 % of the density due.
MISSED = math.log(100.0)


def look_around(target: Target, source_scale: float, seed: int = 0) -> Reference:
    """A reference of its own: survey the domain from `source_scale` on, then run tempered SMC from beyond it.

    Args:
        target: the target, of which nothing but its energy is used.
        source_scale: the narrowest start.
        seed: of all randomness.
    """
    key = jax.random.fold_in(jax.random.key(seed), 1)
    found, calls = survey(key, target, source_scale=source_scale, particles=PARTICLES, islands=ISLANDS)
    draws, _ = tempered_smc(
        jax.random.fold_in(key, 2), target, particles=PARTICLES, islands=ISLANDS, moves=3, resample_below=1.0,
        source_scale=WIDER * float(found.scale),
    )  # fmt: skip
    even = draws.resample(ASKED, seed)
    return Reference(
        np.asarray(even.x),
        np.asarray(even.log_density, np.float64),
        _log_z(draws),
        float(found.scale),
        found.settled,
        calls + draws.energy_calls,
    )


def gather(sampler: Sampler, reference: Reference, seed: int = 0) -> Evidence:
    """Draw in every way the sampler can, look at its residual, and hold it against the reference."""
    halves = [sampler.sample(HALF, seed=2 * seed + half + 1) for half in (0, 1)]
    annealed = sampler.sample(ANNEALED, seed=seed, method="anneal")
    tempered = None if sampler.proposal.joint.tempering is None else sampler.sample(WALKERS, seed, "temper")
    log_weight = np.concatenate([np.asarray(half.log_weight, np.float64) for half in halves])
    flow = _pooled(log_weight)
    # -inf is a draw without weight: it counts in n and drags the mean down as it should.
    over = _log_weight_at(sampler, reference) - reference.log_evidence.value
    known = log_weight[np.isfinite(log_weight)]
    gap = flow.value - float(np.mean(known)) if known.size else math.inf
    seen = _look(sampler, jax.random.fold_in(jax.random.key(seed), 3))
    anneal_weight = np.asarray(annealed.log_weight, np.float64)
    runs = [*halves, annealed, *([] if tempered is None else [tempered])]
    proposal = sampler.proposal
    calls = sum(run.energy_calls for run in runs) + target_calls(proposal, WALKERS, sampler.steps)
    return Evidence(
        flow=flow,
        halves=(_log_z(halves[0]), _log_z(halves[1])),
        anneal=_log_z(annealed),
        temper=None if tempered is None else _log_z(tempered),
        believed=-sampler.free_energy,
        reference=reference.log_evidence,
        reference_settled=reference.settled,
        ess=_ess(log_weight),
        khat=pareto_khat(log_weight),
        anneal_ess=_ess(anneal_weight),
        anneal_khat=pareto_khat(anneal_weight),
        gap=gap,
        reference_gap=float(np.mean(np.minimum(over, MISSED))),
        missed=float(np.mean(over > MISSED)),
        missed_count=int(np.sum(over > MISSED)),
        non_finite=float(np.mean(~np.isfinite(log_weight))),
        dead=float(seen.dead),
        cold_share=None if tempered is None else float(seen.cold_share),
        cold_share_due=None if tempered is None else float(seen.cold_share_due),
        energy_calls=reference.energy_calls + calls,
        **_residual_figures(seen),
    )


class _Seen(eqx.Module):
    """One tempered rollout without resampling: where it went and what residual is there."""

    t: Float[Array, " n"]
    beta: Float[Array, " n"]
    residual: Float[Array, " n"]
    dead: Float[Array, ""]
    cold_share: Float[Array, ""]
    cold_share_due: Float[Array, ""]


@eqx.filter_jit
def _look(sampler: Sampler, key: PRNGKeyArray) -> _Seen:
    joint = sampler.proposal.joint
    times = jnp.linspace(0.0, 1.0, sampler.steps + 1)
    run = rollout(jax.random.fold_in(key, 0), sampler.proposal, sampler.model, WALKERS, times)
    everywhere = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), locations_of(run, joint))
    chosen = jax.random.randint(jax.random.fold_in(key, 1), (LOCATIONS,), 0, everywhere.t.size)
    places: Location = jax.tree.map(lambda leaf: leaf[chosen], everywhere)
    divergence, no_key = ExactDivergence(), jax.random.key(0)

    def at(place: Location) -> Float[Array, ""]:
        return residuals(no_key, sampler.model, place, joint.continuum, divergence)[0]

    found = jax.lax.map(at, places, batch_size=1024)
    beta = jax.vmap(joint.beta)(run.last.xi)
    due = jnp.ones(())
    if joint.tempering is not None:
        walls = joint.tempering.confinement
        due = jnp.exp(walls.log_mass(joint.tempering.map.cold_edge) - walls.log_normaliser())
    return _Seen(
        places.t,
        places.beta,
        jnp.where(places.valid, found, jnp.nan),
        jnp.mean((run.last.status > 0).astype(beta.dtype)),
        jnp.mean((beta == 1.0).astype(beta.dtype)),
        due,
    )


def _residual_figures(seen: _Seen) -> dict[str, Any]:
    t, beta, size = (np.asarray(part, np.float64) for part in (seen.t, seen.beta, seen.residual))
    cold, hot = _quantiles(t, np.abs(size), beta == 1.0), _quantiles(t, np.abs(size), beta < 1.0)
    # A slice that nobody visited says nothing; those that were visited stand for it.
    drift = float(np.mean([row[1] for row in cold])) if cold else math.inf
    return {"drift": drift, "residual": cold, "residual_hot": hot}


def _quantiles(t: NDArray[Any], size: NDArray[Any], kept: NDArray[Any]) -> tuple[tuple[float, ...], ...]:
    rows = []
    for index in range(SLICES):
        inside = kept & (np.floor(np.minimum(t, 1 - 1e-6) * SLICES) == index) & np.isfinite(size)
        if np.any(inside):
            shares = np.quantile(size[inside], (0.5, 0.9, 0.99))
            rows.append(((index + 0.5) / SLICES, *(float(share) for share in shares)))
    return tuple(rows)


def _log_weight_at(sampler: Sampler, reference: Reference) -> NDArray[np.float64]:
    """log w of the flow at the reference's draws; plus infinity where it cannot have made them."""
    log_q = np.asarray(sampler.log_density(jnp.asarray(reference.x)), np.float64)
    log_weight = reference.log_density - log_q
    return np.where(np.isnan(log_weight), np.inf, log_weight)


def _log_z(draws: Draws) -> LogZ:
    return LogZ(float(draws.log_evidence), float(draws.log_evidence_error))


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
