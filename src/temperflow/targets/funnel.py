"""Neal's funnel: one mode whose width changes by orders of magnitude."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.targets.base import Target

MOUTH = 3.0  # the standard deviation of the first coordinate
# Twenty standard deviations down (a chance of 3e-89) the neck stops narrowing: e^{-x0} would
# overflow float32 a little further, and an infinity times a zero is a NaN.
NECK = -20 * MOUTH


class Funnel(eqx.Module):
    r"""$x_0 \sim N(0, 9)$ and $x_i \sim N(0, e^{x_0})$, normalised, with exact draws.

    Below $x_0 = -60$ the variance stays $e^{-60}$ instead of $e^{x_0}$, in the density and in the
    draws alike, so the two still match and $\log Z$ is still exactly 0.

    Args:
        dim: the dimension, the first coordinate included.

    >>> import jax.numpy as jnp
    >>> funnel = Funnel(dim=2)
    >>> round(float(funnel.log_density(jnp.zeros(2))), 4)  # -log(2 pi) - log 3
    -2.9365
    """

    dim: int = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$\\log\\pi(x)$ at one point."""
        mouth, rest = x[0], x[1:]
        log_variance = jnp.maximum(mouth, NECK)
        squares = (mouth / MOUTH) ** 2 + jnp.sum(rest**2) * jnp.exp(-log_variance)
        log_normaliser = math.log(MOUTH) + 0.5 * self.dim * math.log(2 * math.pi)
        return -0.5 * (squares + rest.size * log_variance) - log_normaliser

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """`n` exact draws: the mouth, then the rest at its width."""
        noise = jax.random.normal(key, (n, self.dim))
        mouth = MOUTH * noise[:, :1]
        width = jnp.exp(0.5 * jnp.maximum(mouth, NECK))
        return jnp.concatenate([mouth, width * noise[:, 1:]], axis=1)


def neal_funnel(dim: int = 10) -> Target:
    """Neal's funnel with $x_0$ of variance 9.

    Args:
        dim: the dimension, at least 2.
    """
    if dim < 2:
        raise ValueError(f"funnel: got dim={dim}, expected at least 2")
    funnel = Funnel(dim=dim)
    return Target(
        funnel.log_density,
        dim=dim,
        name=f"funnel-{dim}",
        sample=funnel.sample,
        log_evidence=0.0,
        source_scale=1.0,
        reference="Neal 2003, 'Slice sampling', Annals of Statistics 31(3), section 8. Normalised.",
    )
