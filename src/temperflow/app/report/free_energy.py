"""F_θ held against what the path weights say of it."""

import itertools
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from temperflow.app.report.measure import Exploration, Values
from temperflow.paths import Confinement
from temperflow.proposals import JointDensity
from temperflow.sampling import Sampler

TEMPERATURES, POINTS = 12, 200
# A cell with fewer walkers than this has no error worth drawing.
FEWEST = 8


@dataclass(frozen=True)
class Comparison:
    r"""Along one axis: the learned F, and $F_\theta - \log$ of a weighted mean, with its standard error.

    Args:
        place: values of t or β.
        learned: $F_\theta$ there.
        line: finer places and $F_\theta$ there, as two rows.
        estimate: from the path weights; NaN where nothing is known.
        error: its standard error.
    """

    place: Values
    learned: Values
    line: Values
    estimate: Values
    error: Values


def over_time(sampler: Sampler, seen: Exploration) -> Comparison:
    r"""$F_t(1)$ along the path, by the evidence formula of MATH.md section 5 stopped at t."""
    joint = sampler.proposal.joint
    learned = _learned(sampler, seen.times, np.ones_like(seen.times))
    constant, edge = 0.0, np.inf
    if joint.tempering is not None:
        edge = joint.tempering.map.cold_edge
        constant = -float(joint.tempering.log_cold_share())
    cold_log_weight = np.where(np.abs(seen.xi) <= edge, seen.log_weight, -np.inf)
    found = [_log_mean(slice_) for slice_ in cold_log_weight]
    means, errors = np.array(found).T
    line = np.stack([seen.times, learned])
    return Comparison(seen.times, learned, line, learned - means - constant, errors)


def over_temperature(sampler: Sampler, seen: Exploration) -> Comparison | None:
    r"""$F_1(\beta)$: in each cell of |ξ| the walkers' share against the share that $e^{\psi'}$ gives it."""
    joint = sampler.proposal.joint
    if joint.tempering is None:
        return None
    edges = _xi_edges(joint)
    shares = _shares_within(joint.tempering.confinement, tuple(edges.tolist()))
    shares = np.diff(np.concatenate([[0.0], np.asarray(shares, np.float64)]))
    inside = [0.0, *edges]
    middles = np.array([0.5 * (a + b) for a, b in itertools.pairwise(inside)])
    middles[0] = 0.0
    beta = np.asarray(eqx.filter_jit(eqx.filter_vmap(joint.beta))(jnp.asarray(middles, jnp.float32)), np.float64)
    learned = _learned(sampler, np.ones_like(beta), beta)
    distance, log_weight = np.abs(seen.xi[-1]), seen.log_weight[-1]
    estimates, errors = [], []
    for low, high, share in zip(inside[:-1], inside[1:], shares, strict=True):
        cell = (distance > low) & (distance <= high) if low > 0 else distance <= high
        mean, error = _log_mean(np.where(cell, log_weight, -np.inf))
        estimates.append(mean - np.log(share))
        errors.append(error)
    fine = np.linspace(beta.min(), 1.0, POINTS)
    line = np.stack([fine, _learned(sampler, np.ones_like(fine), fine)])
    return Comparison(beta, learned, line, learned - np.array(estimates), np.array(errors))


def _xi_edges(joint: JointDensity) -> NDArray[np.float64]:
    assert joint.tempering is not None
    cold, hot = joint.tempering.map.cold_edge, joint.tempering.map.hot_edge
    return np.linspace(cold, hot, TEMPERATURES)


@eqx.filter_jit
def _shares_within(walls: Confinement, edges: tuple[float, ...]) -> Float[Array, " edges"]:
    r"""The share of $e^{\psi'}$ within each |ξ|."""
    return jnp.exp(jnp.stack([walls.log_mass(edge) for edge in edges]) - walls.log_normaliser())


def _learned(sampler: Sampler, t: Values, beta: Values) -> Values:
    free_energy = eqx.filter_jit(eqx.filter_vmap(sampler.model.free_energy))
    return np.asarray(free_energy(jnp.asarray(t, jnp.float32), jnp.asarray(beta, jnp.float32)), np.float64)


def _log_mean(log_weight: Values) -> tuple[float, float]:
    """log of the mean weight, and its standard error by the delta method."""
    finite = np.isfinite(log_weight)
    if finite.sum() < FEWEST:
        return np.nan, np.nan
    largest = log_weight[finite].max()
    weight = np.exp(log_weight - largest)
    mean = weight.mean()
    return float(largest + np.log(mean)), float(weight.std(ddof=1) / mean / np.sqrt(weight.size))
