"""What to sample: a log-density with the facts that are known about it."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

LogDensity = Callable[[Float[Array, " dim"]], Float[Array, ""]]
Draw = Callable[[PRNGKeyArray, int], Float[Array, "n dim"]]


class Modes(eqx.Module):
    """Where a target's modes are and what share of the mass each holds.

    A draw belongs to the mode whose centre is nearest. Only diagnostics look at this; nothing
    that trains, adapts or selects may.

    >>> import jax.numpy as jnp
    >>> modes = Modes(centres=jnp.array([[-2.0], [2.0]]), shares=jnp.array([0.3, 0.7]))
    >>> modes.assign(jnp.array([[-0.1], [0.1], [50.0]])).tolist()
    [0, 1, 1]
    """

    centres: Float[Array, "modes dim"]
    shares: Float[Array, " modes"]

    def assign(self, x: Float[Array, "n dim"]) -> Int[Array, " n"]:
        """The nearest centre of each draw."""
        squares = jax.vmap(lambda point: jnp.sum((self.centres - point[None, :]) ** 2, axis=1))(x)
        return jnp.argmin(squares, axis=1)


class Target(eqx.Module):
    r"""An unnormalised density $\hat\pi_1 = e^{-U_1}$ on $R^d$ (MATH.md section 1).

    Args:
        log_density: any JAX callable of one point, returning a scalar, $-U_1(x)$.
        dim: the dimension $d$.
        name: what reports call it.
        sample: `(key, n) -> (n, dim)`, exact draws, where they exist.
        log_evidence: $\log Z = \log\int \hat\pi_1$, where it is known.
        modes: centres and shares of the modes, where they are known.
        source_scale: $\sigma_0$ of the source $N(0, \sigma_0^2 I)$ the experiment starts from.
        reference: where the definition comes from.

    >>> import jax.numpy as jnp
    >>> target = Target(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> energy, gradient = target.energy_and_grad(jnp.array([3.0, 4.0]))
    >>> float(energy), gradient.tolist()
    (12.5, [3.0, 4.0])
    """

    log_density: LogDensity
    dim: int = eqx.field(static=True)
    name: str = eqx.field(static=True, default="custom")
    sample: Draw | None = None
    log_evidence: float | None = eqx.field(static=True, default=None)
    modes: Modes | None = None
    source_scale: float = eqx.field(static=True, default=1.0)
    reference: str = eqx.field(static=True, default="")

    def energy(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$U_1(x)$ at one point."""
        return -self.log_density(x)

    def energy_and_grad(self, x: Float[Array, " dim"]) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """$U_1(x)$ and its gradient at one point; batching is `jax.vmap`'s job.

        Always in full float32: a GPU's shortened matrix products must not touch an energy.
        """
        with jax.default_matmul_precision("float32"):
            return jax.value_and_grad(self.energy)(x)
