"""The proposals without momentum: transport alone, and NETS overdamped."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models import Model
from temperflow.proposals.base import Proposal
from temperflow.proposals.joint import JointDensity, Walker
from temperflow.proposals.work import continuous_work, transported
from temperflow.targets.base import Target


class Transport(Proposal):
    r"""$dx = \mu\,dt$ and nothing else: the paper's baseline.

    The weights $\sum\log|\det(I+h\,\partial_x\mu)| - [\tilde U_T(x_T) - \tilde U_0(x_0)]$ are the
    flow's own importance weights, exact at any step size.

    Args:
        joint: an untempered joint density.
        target: supplies $(U_1, \nabla U_1)$.
        exact_weights: False integrates the work in time as the paper does, with a bias of order h.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.paths import Confinement, Continuum, Identity, TemperatureMap
    >>> from temperflow.proposals import Tempering
    >>> target, path = Target(lambda x: -jnp.sum(x**2), dim=2), Continuum(2, 1.0, Identity())
    >>> walker = Transport(JointDensity(path, tempering=None), target).init(jax.random.key(0))
    >>> bool(jnp.isclose(walker.cached.energy, jnp.sum(walker.x**2)))  # its only target call so far
    True
    >>> heat = Tempering(TemperatureMap(0.2, 0.25, 1.9), Confinement(2.0, 10.0, jnp.zeros(9)))
    >>> Transport(JointDensity(path, heat), target)
    Traceback (most recent call last):
        ...
    ValueError: this proposal lives at temperature one; got a tempered joint density, which only Langevin can move in
    """

    joint: JointDensity
    target: Target
    exact_weights: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        _refuse_tempering(self.joint)

    @property
    def calls_per_step(self) -> int:
        return 1

    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
    ) -> Walker:
        before = self.joint.potential(t, walker.x, walker.xi, walker.cached, model)
        x, log_det = transported(t, h, walker, model, self.joint)
        moved = eqx.tree_at(lambda w: (w.x, w.cached), walker, (x, self.look(x)))
        if self.exact_weights:
            after = self.joint.potential(t + h, x, walker.xi, moved.cached, model)
            gain = log_det - (after - before)
        else:
            gain = h * continuous_work(t, walker, model, self.joint)[1]
        return eqx.tree_at(lambda w: w.log_weight, moved, walker.log_weight + gain)


class Overdamped(Proposal):
    r"""$dx = (\mu - \epsilon\nabla U)dt + \sqrt{2\epsilon}\,dW$: NETS overdamped.

    MATH.md sections 4 and 5. The exact weights compare each Gaussian step with the step that
    would lead back under the reversed control,
    $A \mathrel{+}= \log\hat\pi_{k+1}(x') - \log\hat\pi_k(x)
    + \log N(x; x' + h(-\mu' - \epsilon\nabla U'), 2\epsilon h)
    - \log N(x'; x + h(\mu - \epsilon\nabla U), 2\epsilon h)$: no divergence at all.

    Args:
        joint: an untempered joint density.
        target: supplies $(U_1, \nabla U_1)$.
        diffusion: $\epsilon$.
        exact_weights: False integrates the work in time as the paper does, with a bias of order h.

    >>> import jax.numpy as jnp
    >>> from temperflow.paths import Continuum, Identity
    >>> from temperflow.proposals import target_calls
    >>> target = Target(lambda x: -jnp.sum(x**2), dim=2)
    >>> proposal = Overdamped(JointDensity(Continuum(2, 1.0, Identity()), tempering=None), target, diffusion=1.0)
    >>> target_calls(proposal, count=100, steps=20)  # the gradient of one step's end serves the next
    2100
    """

    joint: JointDensity
    target: Target
    diffusion: float = 50.0
    exact_weights: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        _refuse_tempering(self.joint)

    @property
    def calls_per_step(self) -> int:
        return 1

    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
    ) -> Walker:
        spread = jnp.sqrt(2.0 * self.diffusion * h)
        noise = jax.random.normal(key, walker.x.shape)
        forward = self._drift(t, walker, model, 1.0)
        x = walker.x + h * forward + spread * noise
        moved = eqx.tree_at(lambda w: (w.x, w.cached), walker, (x, self.look(x)))
        if self.exact_weights:
            before = self.joint.potential(t, walker.x, walker.xi, walker.cached, model)
            after = self.joint.potential(t + h, x, walker.xi, moved.cached, model)
            backward = self._drift(t + h, moved, model, -1.0)
            # The noise that the reversed dynamics would have needed to come back.
            returning = (walker.x - x - h * backward) / spread
            gain = before - after + (jnp.sum(noise**2) - jnp.sum(returning**2)) / 2.0
        else:
            gain = h * continuous_work(t, walker, model, self.joint)[1]
        return eqx.tree_at(lambda w: w.log_weight, moved, walker.log_weight + gain)

    def _drift(self, t: Float[Array, ""], walker: Walker, model: Model, direction: float) -> Float[Array, " dim"]:
        force, _ = self.joint.forces(t, walker, model)
        velocity = model.control(t, walker.x, self.joint.beta(walker.xi))
        return direction * velocity - self.diffusion * force


def _refuse_tempering(joint: JointDensity) -> None:
    if joint.tempering is not None:
        raise ValueError(
            "this proposal lives at temperature one; got a tempered joint density, which only Langevin can move in"
        )
