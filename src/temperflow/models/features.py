"""Gaussian Fourier features (Tancik et al. 2020), the coordinates in which the networks see the world."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class FourierFeatures(eqx.Module):
    r"""$z \mapsto (\sin 2\pi Bz, \cos 2\pi Bz[, z/scale])$ with rows of B drawn once from $N(0, \sigma^2)$.

    The frequencies are fixed: they carry no gradient.

    Args:
        key: where the frequencies come from.
        dim: size of z.
        count: number of frequencies; 0 leaves only the raw coordinates.
        spread: $\sigma$, in cycles per unit of z.
        raw_scale: append $z/scale$ with this scale; None appends nothing.

    >>> import jax, jax.numpy as jnp
    >>> features = FourierFeatures(jax.random.key(0), dim=2, count=5, spread=0.1, raw_scale=10.0)
    >>> features.size, features(jnp.zeros(2)).shape
    (12, (12,))
    """

    frequencies: Float[Array, "count dim"]
    raw_scale: float | None

    def __init__(self, key: PRNGKeyArray, dim: int, count: int, spread: float, raw_scale: float | None):
        if count == 0 and raw_scale is None:
            raise ValueError("features need frequencies or raw coordinates; got neither")
        self.frequencies = spread * jax.random.normal(key, (count, dim))
        self.raw_scale = raw_scale

    @property
    def size(self) -> int:
        """Length of the output."""
        count, dim = self.frequencies.shape
        return 2 * count + (0 if self.raw_scale is None else dim)

    def __call__(self, z: Float[Array, " dim"]) -> Float[Array, " size"]:
        # A sum instead of a matrix product: phases of many cycles would not survive TF32.
        frequencies = jax.lax.stop_gradient(self.frequencies)
        phase = 2.0 * jnp.pi * jnp.sum(frequencies * z[None, :], axis=1)
        parts = [jnp.sin(phase), jnp.cos(phase)]
        if self.raw_scale is not None:
            parts.append(z / self.raw_scale)
        return jnp.concatenate(parts)
