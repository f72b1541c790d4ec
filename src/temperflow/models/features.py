"""Gaussian Fourier features (Tancik et al. 2020), the coordinates in which the networks see the world."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class FourierFeatures(eqx.Module):
    r"""$z \mapsto (\sin 2\pi Bz, \cos 2\pi Bz[, z/scale])$ with row k of B drawn once from $N(0, \sigma_k^2)$.

    The frequencies are fixed: they carry no gradient. One $\sigma$ for all rows (Tancik et al.)
    suits a function of one scale. A control has many, from the flow between modes to that within
    a narrow one: with a `coarsest` the $\sigma_k$ are a geometric progression.

    Args:
        key: where the frequencies come from.
        dim: size of z.
        count: number of frequencies; 0 leaves only the raw coordinates.
        spread: $\sigma$, of the finest row, in cycles per unit of z.
        raw_scale: append $z/scale$ with this scale; None appends nothing.
        coarsest: $\sigma$ of the coarsest row; None where all rows have the same.

    >>> import jax, jax.numpy as jnp
    >>> features = FourierFeatures(jax.random.key(0), dim=2, count=5, spread=0.1, raw_scale=10.0)
    >>> features.size, features(jnp.zeros(2)).shape
    (12, (12,))
    """

    frequencies: Float[Array, "count dim"]
    raw_scale: float | None

    def __init__(
        self,
        key: PRNGKeyArray,
        dim: int,
        count: int,
        spread: float,
        raw_scale: float | None,
        coarsest: float | None = None,
    ):
        if count == 0 and raw_scale is None:
            raise ValueError("features need frequencies or raw coordinates; got neither")
        if coarsest is not None and not 0.0 < coarsest <= spread:
            raise ValueError(f"the coarsest spread lies in (0, {spread}]; got {coarsest}")
        spreads = jnp.geomspace(spread if coarsest is None else coarsest, spread, count) if spread else jnp.zeros(count)
        self.frequencies = spreads[:, None] * jax.random.normal(key, (count, dim))
        self.raw_scale = raw_scale

    @property
    def size(self) -> int:
        """Length of the output."""
        count, dim = self.frequencies.shape
        return 2 * count + (0 if self.raw_scale is None else dim)

    def __call__(self, z: Float[Array, " dim"]) -> Float[Array, " size"]:
        # A sum instead of a matrix product: phases of many cycles would not survive TF32.
        frequencies = jax.lax.stop_gradient(self.frequencies)
        parts = [*sine_and_cosine(jnp.sum(frequencies * z[None, :], axis=1))]
        if self.raw_scale is not None:
            parts.append(z / self.raw_scale)
        return jnp.concatenate(parts)

    def derivative_maps(
        self, weight: Float[Array, "outputs size"]
    ) -> tuple[Float[Array, "dim outputs size"], Float[Array, "dim outputs"]]:
        r"""$M_j$ and $c_j$ with $W\,\partial_j\phi(z) = M_j\,\phi(z) + c_j$ at every z.

        The derivative of a sine is a cosine of the same features, so a first layer W needs no
        features but $\phi$ for all its derivatives; the maps themselves cost no more than W.

        >>> import jax, jax.numpy as jnp
        >>> features = FourierFeatures(jax.random.key(0), dim=2, count=5, spread=0.1, raw_scale=10.0)
        >>> weight, z = jnp.ones((1, 12)), jnp.array([1.0, 2.0])
        >>> maps, constants = features.derivative_maps(weight)
        >>> exact = (weight @ jax.jacfwd(features)(z)).T
        >>> bool(jnp.allclose(maps @ features(z) + constants, exact, atol=1e-5))
        True
        """
        count, dim = self.frequencies.shape
        angular = 2.0 * jnp.pi * jax.lax.stop_gradient(self.frequencies).T[:, None, :]
        of_sines, of_cosines, raw = weight[None, :, :count], weight[None, :, count : 2 * count], weight[:, 2 * count :]
        unused = jnp.zeros((dim, weight.shape[0], raw.shape[1]), weight.dtype)
        maps = jnp.concatenate([-angular * of_cosines, angular * of_sines, unused], axis=2)
        if self.raw_scale is None:
            return maps, jnp.zeros((dim, weight.shape[0]), weight.dtype)
        return maps, raw.T / self.raw_scale


# sin(πr)/r and cos(πr) as polynomials in r² on |r| <= 1/2, fitted at Chebyshev points; error below 3e-9.
_SINE = (3.1415927, -5.1677127, 2.5501633, -0.59925222, 0.082050405, -0.0070283865)
_COSINE = (1.0, -4.9348021, 4.0587120, -1.3352623, 0.23532544, -0.025776329, 0.0018400053)


@jax.custom_jvp
def sine_and_cosine(cycles: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    r"""$\sin 2\pi u$ and $\cos 2\pi u$ together, to a few units in the last place.

    Whole cycles come off before $\pi$ goes in, which is exact, so nothing is lost on long phases
    and no branch is needed for them: faster and closer than the library's sine of $2\pi u$.

    >>> import jax.numpy as jnp
    >>> [round(float(part), 6) for part in sine_and_cosine(jnp.array(1000.125))]
    [0.707107, 0.707107]
    """
    rest = cycles - jnp.round(cycles)
    square = rest**2
    # The half angle keeps the polynomials short; doubling it again costs two products.
    sine, cosine = rest * _horner(_SINE, square), _horner(_COSINE, square)
    return 2.0 * sine * cosine, (cosine - sine) * (cosine + sine)


@sine_and_cosine.defjvp
def _sine_and_cosine_jvp(primals, tangents):
    sine, cosine = sine_and_cosine(*primals)
    turn = 2.0 * jnp.pi * tangents[0]
    return (sine, cosine), (cosine * turn, -sine * turn)


def _horner(coefficients: tuple[float, ...], at: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    total = jnp.full_like(at, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * at + coefficient
    return total
