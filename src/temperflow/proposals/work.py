"""What moving along the control costs: exactly for one Euler step, and per unit time."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from temperflow.models import Model, log_abs_det, value_and_jacobian
from temperflow.proposals.joint import JointDensity, Walker


def transported(
    t: Float[Array, ""], h: Float[Array, ""], walker: Walker, model: Model, joint: JointDensity
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    r"""$x + h\mu_t(x, b)$ and $\log|\det(I + h\,\partial_x\mu)|$ of that very map (MATH.md section 5)."""
    b = joint.beta(walker.xi)
    velocity, jacobian = value_and_jacobian(model.control.at(t, b), walker.x)
    identity = jnp.eye(walker.x.size, dtype=walker.x.dtype)
    return walker.x + h * velocity, log_abs_det(identity + h * jacobian)


def continuous_work(
    t: Float[Array, ""], walker: Walker, model: Model, joint: JointDensity
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    r"""μ and $\nabla\cdot\mu - \partial_t\tilde U - \mu\cdot\nabla\tilde U$, the paper's rate of work.

    MATH.md section 5. The last two terms are one derivative along $(1, \mu)$.
    """
    b = joint.beta(walker.xi)
    velocity, jacobian = value_and_jacobian(model.control.at(t, b), walker.x)
    _, along = jax.jvp(
        lambda t, x: joint.potential(t, x, walker.xi, walker.cached, model),
        (t, walker.x),
        (jnp.ones_like(t), velocity),
    )
    return velocity, jnp.trace(jacobian) - along
