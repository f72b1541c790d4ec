"""First derivatives of the control: its divergence, and the determinant of one step of it."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models.networks import Field, Frozen


class Divergence(eqx.Module):
    r"""How $\mu$ and $\nabla\cdot\mu$ are evaluated in the residual (MATH.md section 2).

    Two numbers come back whose product of residuals is to be trained on: equal ones when the
    divergence is exact, two independent estimates when it is stochastic.
    """

    @abc.abstractmethod
    def __call__(
        self, key: PRNGKeyArray, field: Field, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, "2"]]:
        """The field's value and two estimates of its divergence."""


class ExactDivergence(Divergence):
    """The trace of the Jacobian, by one forward derivative a dimension.

    >>> import jax, jax.numpy as jnp
    >>> value, twice = ExactDivergence()(jax.random.key(0), lambda x: x**2, jnp.array([1.0, 2.0]))
    >>> twice.tolist()
    [6.0, 6.0]
    """

    def __call__(
        self, key: PRNGKeyArray, field: Field, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, "2"]]:
        value, jacobian = value_and_jacobian(field, x)
        return value, jnp.broadcast_to(jnp.trace(jacobian), (2,))


class HutchinsonDivergence(Divergence):
    r"""$v\cdot J v$ with Rademacher v (Hutchinson 1990), for dimensions where d derivatives cost too much.

    With two probes $E[r_1 r_2] = r^2$: the loss is unbiased. With one, $E[r_1^2] = r^2 + Var$:
    half the price, and the control is also pulled towards symmetric Jacobians of small norm.

    Args:
        probes: 2, or 1 for the single-probe loss.

    >>> import jax, jax.numpy as jnp
    >>> diagonal = HutchinsonDivergence(2)
    >>> diagonal(jax.random.key(0), lambda x: x**2, jnp.array([1.0, 2.0]))[1].tolist()
    [6.0, 6.0]
    """

    probes: int = eqx.field(static=True, default=2)

    def __check_init__(self):
        if self.probes not in (1, 2):
            raise ValueError(f"probes is 1 or 2; got {self.probes}")

    def __call__(
        self, key: PRNGKeyArray, field: Field, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, "2"]]:
        directions = jax.random.rademacher(key, (self.probes, x.size), x.dtype)
        value, pushed = _push(field, x, directions)
        return value, jnp.broadcast_to(jnp.sum(directions * pushed, axis=1), (2,))


def value_and_jacobian(field: Field, x: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """The field and its Jacobian (row i, column j: ∂_j of component i) from one forward pass."""
    if isinstance(field, Frozen):
        return field.value_and_jacobian(x)
    value, columns = _push(field, x, jnp.eye(x.size, dtype=x.dtype))
    return value, columns.T


def log_abs_det(matrix: Float[Array, "dim dim"]) -> Float[Array, ""]:
    r"""$\log|\det|$."""
    return signed_log_det(matrix)[1]


def signed_log_det(matrix: Float[Array, "dim dim"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""The determinant's sign and $\log|\det|$.

    In closed form up to three dimensions: a batched LU is slow for small matrices.
    """
    m = matrix
    match m.shape[0]:
        case 1:
            determinant = m[0, 0]
        case 2:
            determinant = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        case 3:
            determinant = jnp.dot(m[0], jnp.cross(m[1], m[2]))
        case _:
            sign, log_abs = jnp.linalg.slogdet(m)
            return sign, log_abs
    return jnp.sign(determinant), jnp.log(jnp.abs(determinant))


def _push(
    field: Field, x: Float[Array, " dim"], directions: Float[Array, "k dim"]
) -> tuple[Float[Array, " dim"], Float[Array, "k dim"]]:
    """The field and its derivatives along several directions; the value is computed once."""
    return jax.vmap(lambda v: jax.jvp(field, (x,), (v,)), out_axes=(None, 0))(directions)
