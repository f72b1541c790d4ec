"""What the report shows, as plain arrays: everything that costs compute happens here, once."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from temperflow.app.build import Built
from temperflow.app.exploring import WALKERS, fresh_rollout
from temperflow.models import Model
from temperflow.proposals import Proposal, Rollout, target_calls
from temperflow.sampling import Draws, RungeKuttaFlow, Sampler
from temperflow.sampling.flow import SteppedFlow
from temperflow.targets import Target
from temperflow.training import locations_of
from temperflow.training.residual_map import residual_map

Values = NDArray[np.float64]
# Enough for a cloud of points, little enough for a laptop; as many as `temperflow evaluate` draws at a time.
DRAWS = 2500
PARTICLES = 400
FRAMES = 61
# Cells of the maps. The cold and the hot plateau of β are cells of their own.
TIMES = 20
INNER_TEMPERATURES = 6
MAPPED_SLICES = 40


@dataclass(frozen=True)
class Exploration:
    """A fresh rollout of the proposal; leading axis time, then walkers.

    Args:
        times: when each slice was recorded.
        x, beta, xi: the walkers.
        log_weight: their path weights.
        energy_calls: target evaluations spent.
    """

    times: Values
    x: Values
    beta: Values
    xi: Values
    log_weight: Values
    energy_calls: int


@dataclass(frozen=True)
class Maps:
    """Residual and effective share in cells of (t, β), rows time.

    Args:
        t_edges, beta_edges: the cells.
        residual: root mean square, NaN in empty cells.
        ess: effective share of the path weights among the walkers of a cell.
    """

    t_edges: Values
    beta_edges: Values
    residual: Values
    ess: Values


@dataclass(frozen=True)
class Measurements:
    """Everything the figures need.

    Args:
        draws: of the flow.
        reference: points to compare them with in more than two dimensions, equally weighted.
        reference_is_exact: whether those are exact draws of the target or annealed draws.
        way: the flow's particles, (frames, particles, dim).
        before, after: rollouts with the untrained and the trained model.
        maps: of the latter.
        energy_calls: target evaluations that all of it cost.
    """

    draws: Draws
    reference: Values | None
    reference_is_exact: bool
    way: Values
    before: Exploration
    after: Exploration
    maps: Maps
    energy_calls: int


def measure(built: Built, sampler: Sampler, target: Target, seed: int) -> Measurements:
    """Look at a sampler from all the sides that the report shows.

    Args:
        built: the objects of the run; its model is the untrained one.
        sampler: the trained one.
        target: what was sampled.
        seed: of the look; other than the training's, so that the locations are fresh.
    """
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 0x7265706F), 4)
    draws = sampler.sample(DRAWS, seed=seed + 1)
    run, after = explore(keys[0], sampler.proposal, sampler.model, WALKERS, sampler.steps)
    _, before = explore(keys[0], built.trainer.proposal, built.model, WALKERS, sampler.steps)
    reference, exact, calls = _reference(keys[1], sampler, target, seed)
    return Measurements(
        draws,
        reference,
        exact,
        np.asarray(flow_way(sampler, keys[2]), np.float64),
        before,
        after,
        _maps(keys[3], built, sampler, run, after),
        draws.energy_calls + before.energy_calls + after.energy_calls + calls,
    )


def explore(
    key: PRNGKeyArray, proposal: Proposal, model: Model, walkers: int, steps: int
) -> tuple[Rollout, Exploration]:
    """A fresh rollout to t = 1 without resampling, and what the figures need of it."""
    run = fresh_rollout(key, proposal, model, walkers, steps)
    w = run.walkers
    beta = jax.vmap(jax.vmap(proposal.joint.beta))(w.xi)
    times, x, b, xi, a = (np.asarray(each, np.float64) for each in (run.times, w.x, beta, w.xi, w.log_weight))
    return run, Exploration(times, x, b, xi, a, target_calls(proposal, walkers, steps))


@eqx.filter_jit
def flow_way(sampler: Sampler, key: PRNGKeyArray) -> Float[Array, "frames particles dim"]:
    """Positions on the way from source to target along the control at temperature one."""
    flow = sampler.flow if isinstance(sampler.flow, SteppedFlow) else RungeKuttaFlow(64)
    scale = sampler.proposal.joint.continuum.source_scale
    start = scale * jax.random.normal(key, (PARTICLES, sampler.dim))
    h = jnp.asarray(1.0 / flow.steps)

    def step(x: Array, index: Array) -> tuple[Array, Array]:
        t = index.astype(x.dtype) * h
        x = jax.vmap(lambda point: flow.advance(sampler.model.control, t, h, point))(x)
        return x, x

    _, later = jax.lax.scan(step, start, jnp.arange(flow.steps))
    return jnp.concatenate([start[None], later])[_frames(flow.steps + 1)]


def _frames(slices: int) -> NDArray[np.intp]:
    return np.unique(np.round(np.linspace(0, slices - 1, min(slices, FRAMES))).astype(np.intp))


def _reference(key: PRNGKeyArray, sampler: Sampler, target: Target, seed: int) -> tuple[Values | None, bool, int]:
    """What to lay behind the draws where the density itself cannot be drawn."""
    if target.dim <= 2:
        return None, False, 0
    if target.sample is not None:
        return np.asarray(target.sample(key, 4 * DRAWS), np.float64), True, 0
    annealed = sampler.sample(DRAWS, seed=seed + 2, method="anneal")
    if not np.any(np.isfinite(np.asarray(annealed.log_weight))):
        return None, False, annealed.energy_calls
    return np.asarray(annealed.resample(DRAWS, seed=seed).x, np.float64), False, annealed.energy_calls


def _maps(key: PRNGKeyArray, built: Built, sampler: Sampler, run: Rollout, seen: Exploration) -> Maps:
    tempering = sampler.proposal.joint.tempering
    hottest = 1.0 if tempering is None else tempering.map.hottest
    t_edges = np.linspace(0.0, 1.0, TIMES + 1)
    beta_edges = temperature_edges(hottest)
    chosen = np.unique(np.linspace(0, run.times.size - 1, MAPPED_SLICES).astype(int))
    locations = jax.tree.map(lambda leaf: leaf[chosen], locations_of(run, sampler.proposal.joint))
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), locations)
    cells = eqx.filter_jit(residual_map)(
        key,
        sampler.model,
        flat,
        sampler.proposal.joint.continuum,
        built.trainer.loss.divergence,
        jnp.asarray(t_edges, jnp.float32),
        jnp.asarray(beta_edges, jnp.float32),
    )
    return Maps(t_edges, beta_edges, np.asarray(cells.rms, np.float64), ess_map(seen, t_edges, beta_edges))


def temperature_edges(hottest: float) -> Values:
    """Cells of β: the hot plateau, equal cells between, the cold plateau; one cell where nothing is tempered.

    >>> temperature_edges(1.0).size, temperature_edges(0.2).size
    (2, 9)
    """
    if hottest >= 1.0:
        return np.array([0.0, 1.0])
    inner = np.linspace(hottest, 1.0, INNER_TEMPERATURES + 1)
    sliver = 1e-3 * (1.0 - hottest)
    inner[0], inner[-1] = hottest + sliver, 1.0 - sliver
    return np.concatenate([[hottest - sliver], inner, [1.0]])


def ess_map(seen: Exploration, t_edges: Values, beta_edges: Values) -> Values:
    """Mean over a cell's slices of the effective share among the slice's walkers in the cell."""
    sums = np.zeros((t_edges.size - 1, beta_edges.size - 1))
    counts = np.zeros_like(sums)
    for slice_, t in enumerate(seen.times):
        row = min(np.searchsorted(t_edges, t, side="right") - 1, TIMES - 1)
        column = np.clip(np.searchsorted(beta_edges, seen.beta[slice_], side="right") - 1, 0, sums.shape[1] - 1)
        for cell in range(sums.shape[1]):
            log_weight = seen.log_weight[slice_][column == cell]
            if log_weight.size >= 8:
                sums[row, cell] += effective_share(log_weight)
                counts[row, cell] += 1
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def effective_share(log_weight: Values) -> float:
    r"""$(\sum w)^2 / (n\sum w^2)$, zero where no weight is positive.

    >>> effective_share(np.array([0.0, 0.0, -np.inf, -np.inf]))
    0.5
    """
    largest = np.max(log_weight)
    if not np.isfinite(largest):
        return 0.0
    weight = np.exp(log_weight - largest)
    return float(weight.sum() ** 2 / (weight.size * np.sum(weight**2)))
