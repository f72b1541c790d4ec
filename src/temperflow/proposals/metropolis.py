"""An accept-or-reject move between steps, for targets too stiff for any fixed step size."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models import Model
from temperflow.proposals.base import Proposal
from temperflow.proposals.joint import JointDensity, Walker
from temperflow.targets.base import Target


class MetropolisAdjusted(Proposal):
    r"""A proposal followed by Metropolis-adjusted Langevin moves in x at fixed (t, ξ, p).

    The moves leave $e^{-\beta\bar U_t}$ invariant, so they change neither the weights nor what
    the weights are exact for (MATH.md section 5: the energy they exchange is heat). A move into
    infinite energy is a rejection.

    Args:
        proposal: the dynamics to follow.
        step_size: standard deviation of the move at temperature one; it grows as $\beta^{-1/2}$.
        moves: how many after each step; one target call each.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.paths import Continuum, Identity
    >>> from temperflow.proposals import Transport
    >>> target = Target(lambda x: -jnp.sum(x**2), dim=2)
    >>> transport = Transport(JointDensity(Continuum(2, 1.0, Identity()), tempering=None), target)
    >>> adjusted = MetropolisAdjusted(proposal=transport, step_size=0.3, moves=2)
    >>> transport.calls_per_step, adjusted.calls_per_step
    (1, 3)
    """

    proposal: Proposal
    step_size: float
    moves: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if not (self.step_size > 0.0 and self.moves >= 1):
            raise ValueError(f"expected step_size > 0, moves >= 1; got {self.step_size}, {self.moves}")

    @property
    def joint(self) -> JointDensity:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.proposal.joint

    @property
    def target(self) -> Target:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.proposal.target

    @property
    def calls_per_step(self) -> int:
        return self.proposal.calls_per_step + self.moves

    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
    ) -> Walker:
        first, *rest = jax.random.split(key, 1 + self.moves)
        walker = self.proposal.move(first, t, h, walker, model)
        for one in rest:
            walker = self._adjusted(one, t + h, walker, model)
        return walker

    def _adjusted(self, key: PRNGKeyArray, t: Float[Array, ""], walker: Walker, model: Model) -> Walker:
        for_noise, for_choice = jax.random.split(key)
        spread = self.step_size / jnp.sqrt(self.joint.beta(walker.xi))
        noise = jax.random.normal(for_noise, walker.x.shape)
        force, _ = self.joint.forces(t, walker, model)
        x = walker.x - spread**2 / 2.0 * force + spread * noise
        moved = eqx.tree_at(lambda w: (w.x, w.cached), walker, (x, self.look(x)))
        back_force, _ = self.joint.forces(t, moved, model)
        returning = (walker.x - x + spread**2 / 2.0 * back_force) / spread
        log_ratio = (
            self.joint.potential(t, walker.x, walker.xi, walker.cached, model)
            - self.joint.potential(t, x, walker.xi, moved.cached, model)
            + (jnp.sum(noise**2) - jnp.sum(returning**2)) / 2.0
        )
        # A comparison with NaN is false: non-finite energies are rejections.
        accept = jnp.log(jax.random.uniform(for_choice)) < log_ratio
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), moved, walker)
