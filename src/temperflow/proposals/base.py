"""What every proposal is: a start, a step, and the count of target calls each takes."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models import Model
from temperflow.paths import Cached
from temperflow.proposals.joint import JointDensity, Walker
from temperflow.targets.base import Target


class Proposal(eqx.Module):
    """Where to look: controlled dynamics whose marginals are the training locations.

    One walker at a time; batching is `jax.vmap`'s job. Every step adds to `walker.log_weight`
    so that $E[e^A] = Z_t/Z_0$ of the joint density (MATH.md section 5), exactly at any step size
    unless the proposal says otherwise.
    """

    joint: eqx.AbstractVar[JointDensity]
    target: eqx.AbstractVar[Target]

    @property
    @abc.abstractmethod
    def calls_per_step(self) -> int:
        """Target evaluations (value and gradient together) a step makes."""

    @abc.abstractmethod
    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
    ) -> Walker:
        """From t to t + h, without regard to whether the numbers stay finite."""

    def init(self, key: PRNGKeyArray) -> Walker:
        """An exact draw at t = 0, weight one. One target call."""
        x, momentum, xi, xi_momentum = self.joint.initial(key)
        cached = self.look(x)
        ok = jnp.isfinite(cached.energy) & jnp.all(jnp.isfinite(cached.gradient))
        return Walker(
            x,
            momentum,
            xi,
            xi_momentum,
            jax.tree.map(lambda leaf: jnp.where(ok, leaf, 0.0), cached),
            jnp.where(ok, 0.0, -jnp.inf),
            jnp.where(ok, 0, 1),
        )

    def step(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
    ) -> Walker:
        """From t to t + h. A walker that meets a non-finite number stays behind with weight zero.

        Killing such paths can only lose mass, so the evidence errs on the low side, by the share
        that `status` shows.
        """
        moved = self.move(key, t, h, walker, model)
        finite = jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(moved)[:-2]])
        alive = jnp.isfinite(walker.log_weight)
        ok = jnp.all(finite) & jnp.isfinite(moved.log_weight)
        kept = jax.tree.map(lambda new, old: jnp.where(ok & alive, new, old), moved, walker)
        return eqx.tree_at(
            lambda w: (w.log_weight, w.status),
            kept,
            (
                jnp.where(ok & alive, moved.log_weight, -jnp.inf),
                walker.status + jnp.where(alive & ~ok, 1, 0),
            ),
        )

    def with_bias(self, bias: Float[Array, " knots"]) -> "Proposal":
        """The same proposal with another adaptive bias of ξ."""
        return eqx.tree_at(lambda p: p.joint.tempering.confinement.bias, self, bias)

    def untempered(self) -> "Proposal":
        """The same proposal with ξ frozen at zero: everything at temperature one."""
        return eqx.tree_at(lambda p: p.joint.tempering, self, None, is_leaf=lambda leaf: leaf is None)

    def look(self, x: Float[Array, " dim"]) -> Cached:
        """One target call."""
        return Cached(*self.target.energy_and_grad(x))
