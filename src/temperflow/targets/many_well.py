"""Many-Well: independent double wells, so exponentially many modes with everything known."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from temperflow.targets.base import Modes, Target

# Of the rejection: the round, the values so far, and which of them stand.
_Rejection = tuple[Int[Array, ""], Float[Array, "..."], Bool[Array, "..."]]

# 2^8 modes are listed, no more: a list of 2^16 centres would cost more than the target.
MOST_DIMENSIONS_WITH_MODES = 16


class ManyWell(eqx.Module):
    r"""Pairs $(a, b)$ with energy $a^4 - 6a^2 - \frac12 a + \frac12 b^2$, summed over pairs.

    Coordinates $0, 2, 4, \dots$ are the $a$ and the odd ones the $b$. Each $a$ sits in a well near
    $-1.71$ (15% of the mass) or $1.75$ (85%), a barrier of 9 nats apart, so $n$ pairs have $2^n$
    modes.

    **Exact draws.** With $c = \sqrt3$ the density of $a$ is
    $\exp[-(a^2 - c^2)^2 + a/2]$ up to a constant, and for $y = |a|$

    $$(y^2 - c^2)^2 = (y - c)^2 (y + c)^2 \ge c^2 (y - c)^2,$$

    so on either side of zero a Gaussian lies above it: completing the square with the tilt
    $\pm y/2$ puts it at $c \pm 1/12$ with variance $1/6$, and gives the sides the odds
    $e^{c}$ to 1. A proposal from there is kept with probability
    $\exp[-(y-c)^2((y+c)^2 - c^2)]$ if $y > 0$, else dropped. The bound is an identity, not a
    fitted constant, so the draws are exact; a little under half of the proposals are kept.

    Args:
        pairs: the number of pairs; the dimension is twice that.

    >>> import jax.numpy as jnp
    >>> well = ManyWell(pairs=1)
    >>> float(well.log_density(jnp.array([2.0, 1.0])))  # -(16 - 24 - 1 + 1/2)
    8.5
    """

    pairs: int = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$\\log\\hat\\pi(x)$ at one point, unnormalised."""
        first, second = x[0::2], x[1::2]
        return -jnp.sum(first**2 * (first**2 - 6) - 0.5 * first + 0.5 * second**2)

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """`n` exact draws."""
        first_key, second_key = jax.random.split(key)
        shape = (n, self.pairs)
        pair = (_draw_double_well(first_key, shape), jax.random.normal(second_key, shape))
        return jnp.stack(pair, axis=-1).reshape(n, 2 * self.pairs)


def many_well(dim: int = 8) -> Target:
    """Many-Well with `dim / 2` pairs, unnormalised, with its log evidence by quadrature.

    Args:
        dim: an even dimension; the modes are listed up to 16.
    """
    if dim < 2 or dim % 2:
        raise ValueError(f"many-well: got dim={dim}, expected an even number of at least 2")
    well = ManyWell(pairs=dim // 2)
    left, right = _well_masses()
    return Target(
        well.log_density,
        dim=dim,
        name=f"many-well-{dim}",
        sample=well.sample,
        log_evidence=well.pairs * (math.log(left + right) + 0.5 * math.log(2 * math.pi)),
        modes=_modes(well.pairs) if dim <= MOST_DIMENSIONS_WITH_MODES else None,
        source_scale=1.0,
        reference="Wu, Koehler & Noe 2020, arXiv:2002.06707 (the double well); FAB, Midgley et "
        "al. 2023, arXiv:2208.01893 (Many-Well-32). Unnormalised; log Z = 164.6957 for 32.",
    )


def _draw_double_well(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Exact draws of one coordinate: all places propose together until each has kept one."""
    centre = math.sqrt(3)

    def unfinished(state: _Rejection) -> Bool[Array, ""]:
        return jnp.logical_not(jnp.all(state[2]))

    def propose(state: _Rejection) -> _Rejection:
        round_number, x, kept = state
        keys = jax.random.split(jax.random.fold_in(key, round_number), 3)
        right = jax.random.bernoulli(keys[0], jax.nn.sigmoid(centre), shape)
        side = jnp.where(right, jnp.ones(shape), -jnp.ones(shape))
        y = centre + side / 12 + jax.random.normal(keys[1], shape) / math.sqrt(6)
        cost = (y - centre) ** 2 * ((y + centre) ** 2 - centre**2)
        fits = (y > 0) & (jax.random.exponential(keys[2], shape) > cost)
        # The first fit of a place stands: later ones would favour places that finish early.
        return round_number + 1, jnp.where(kept, x, side * y), kept | fits

    start = (jnp.array(0), jnp.zeros(shape), jnp.zeros(shape, bool))
    return jax.lax.while_loop(unfinished, propose, start)[1]


@functools.cache
def _well_centres() -> tuple[float, float]:
    """The two minima of a^4 - 6a^2 - a/2: the outer roots of its derivative."""
    roots = np.sort(np.roots([4.0, 0.0, -12.0, -0.5]).real)
    return float(roots[0]), float(roots[2])


@functools.cache
def _well_masses() -> tuple[float, float]:
    """The integral of exp(-a^4 + 6a^2 + a/2) on the side of each minimum.

    The sides meet half-way between the minima, where `Modes.assign` changes its mind. Beyond |a| =
    5 the integrand is below e^-470; 200 Gauss-Legendre nodes a side leave nothing but rounding.
    """
    nodes, weights = np.polynomial.legendre.leggauss(200)
    border = sum(_well_centres()) / 2

    def integral(low: float, high: float) -> float:
        a = low + (high - low) * (nodes + 1) / 2
        return float(np.sum(weights * np.exp(-(a**4) + 6 * a**2 + a / 2)) * (high - low) / 2)

    return integral(-5.0, border), integral(border, 5.0)


def _modes(pairs: int) -> Modes:
    sides = np.indices((2,) * pairs).reshape(pairs, -1).T
    centres = np.zeros((len(sides), 2 * pairs))
    centres[:, 0::2] = np.array(_well_centres())[sides]
    masses = np.array(_well_masses())
    shares = np.prod((masses / masses.sum())[sides], axis=1)
    return Modes(centres=jnp.asarray(centres), shares=jnp.asarray(shares))
