"""Many walkers from t = 0 to a horizon: the locations they visit, their weights, the evidence."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from temperflow.models import Model
from temperflow.proposals.base import Proposal
from temperflow.proposals.joint import Walker
from temperflow.proposals.weights import (
    effective_sample_size,
    log_mean_exp,
    systematic_resample,
)


class Rollout(eqx.Module):
    """What a run of walkers leaves behind; leading axes (steps + 1, walkers) where batched.

    Args:
        times: when each slice was recorded.
        walkers: every walker at every recorded time, before any resampling at that time.
        log_resampled: log of the mean weight that resampling had moved out before each slice.
        resampled: how many times the population was resampled.

    >>> import jax, jax.numpy as jnp, math
    >>> from temperflow.models import Control, FourierFeatures, FreeEnergy, Network
    >>> from temperflow.paths import Continuum, Identity
    >>> from temperflow.proposals import JointDensity, Transport
    >>> from temperflow.targets import Target
    >>> time = FourierFeatures(jax.random.key(0), dim=1, count=2, spread=1.0, raw_scale=1.0)
    >>> position = FourierFeatures(jax.random.key(3), dim=1, count=0, spread=1.0, raw_scale=1.0)
    >>> still = Control(Network(jax.random.key(1), 1, 4, 1, position), output_scale=0.0)
    >>> model = Model(still, FreeEnergy(Network(jax.random.key(2), 1, 4, 1, time=time)), potential=None)
    >>> target = Target(lambda x: -jnp.sum(x**2), dim=1, log_evidence=0.5 * math.log(math.pi))
    >>> proposal = Transport(JointDensity(Continuum(1, 1.0, Identity()), tempering=None), target)
    >>> run = rollout(jax.random.key(3), proposal, model, 400, jnp.linspace(0.0, 1.0, 4))
    >>> run.walkers.x.shape  # four times, 400 walkers
    (4, 400, 1)
    >>> bool(abs(run.log_evidence(proposal, model) - target.log_evidence) < 0.1)  # with no control at all
    True
    """

    times: Float[Array, " slices"]
    walkers: Walker
    log_resampled: Float[Array, " slices"]
    resampled: Int[Array, ""]

    @property
    def last(self) -> Walker:
        """The walkers at the horizon."""
        return jax.tree.map(lambda leaf: leaf[-1], self.walkers)

    def log_evidence(self, proposal: Proposal, model: Model) -> Float[Array, ""]:
        """log Z₁, for a run whose horizon was 1."""
        last = self.last
        return proposal.joint.log_evidence(last.log_weight, last.xi, self.log_resampled[-1], model)


def time_grid(steps: int, horizon: Float[Array, ""], shift: Float[Array, ""]) -> Float[Array, " slices"]:
    """`steps` steps to the horizon, the first cut short by `shift` in (0, 1] of a step.

    Moving the grid from rollout to rollout shows the loss every time, not only the grid's.
    """
    inner = (jnp.arange(steps - 1, dtype=horizon.dtype) + shift) / (steps - 1 + shift)
    return horizon * jnp.concatenate([jnp.zeros(1), inner, jnp.ones(1)])[: steps + 1]


def rollout(
    key: PRNGKeyArray,
    proposal: Proposal,
    model: Model,
    count: int,
    times: Float[Array, " slices"],
    resample_below: float = 0.0,
    start: Walker | None = None,
) -> Rollout:
    """Run `count` walkers through `times`, resampling when the effective share falls below a threshold.

    They begin at `start`, by default at exact draws of the proposal's own. A proposal without
    noise runs as well through times that fall, from a start at the later end.

    Keys are `fold_in(key, step, walker)`, so a walker's noise does not depend on how many
    others there are. Everything is in full float32: TF32 must not touch weights.
    """
    indices = jnp.arange(count)

    def keys_at(step: Int[Array, ""]) -> Key[Array, " count"]:
        return jax.vmap(lambda i: jax.random.fold_in(jax.random.fold_in(key, step), i))(indices)

    def advance(carry, inputs):
        walkers, moved_out, resampled = carry
        step, t, h = inputs
        walkers = jax.vmap(lambda k, w: proposal.step(k, t, h, w, model))(keys_at(step), walkers)
        recorded = (walkers, moved_out)
        if resample_below > 0.0:
            log_weight = walkers.log_weight
            due = effective_sample_size(log_weight) < resample_below
            # No walker has this index, so the population's key is its own.
            chosen = systematic_resample(jax.random.fold_in(jax.random.fold_in(key, step), count), log_weight, count)
            chosen = jnp.where(due, chosen, indices)
            walkers = jax.tree.map(lambda leaf: leaf[chosen], walkers)
            walkers = eqx.tree_at(lambda w: w.log_weight, walkers, jnp.where(due, 0.0, walkers.log_weight))
            moved_out = moved_out + jnp.where(due, log_mean_exp(log_weight), 0.0)
            resampled = resampled + jnp.where(due, 1, 0)
        return (walkers, moved_out, resampled), recorded

    with jax.default_matmul_precision("float32"):
        if start is None:
            start = jax.vmap(proposal.init)(keys_at(jnp.asarray(0)))
        zero = jnp.zeros(())
        steps = jnp.arange(1, times.size)
        (_, _, resampled), (walkers, moved_out) = jax.lax.scan(
            advance, (start, zero, jnp.asarray(0)), (steps, times[:-1], jnp.diff(times))
        )
    walkers = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, walkers)
    return Rollout(times, walkers, jnp.append(zero, moved_out), resampled)


def target_calls(proposal: Proposal, count: int, steps: int) -> int:
    """Exactly how many target evaluations a rollout makes."""
    return count * (1 + steps * proposal.calls_per_step)
