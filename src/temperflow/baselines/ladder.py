"""Ladders of s: where the levels sit, and how they are moved so that each gap is equally hard."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Ladder(eqx.Module):
    """Levels from 0 to 1 with the local step that suits each level above the source.

    Every baseline returns one in its info and takes one as `ladder=`. On a given ladder
    nothing is adapted, and the evidence of annealed importance sampling and of tempered SMC is
    unbiased at any number of particles.

    Args:
        s: $0 = s_0 < s_1 < ... = 1$.
        step: row k is the coordinatewise step at `s[k + 1]`.

    >>> coarse = Ladder(jnp.array([0.0, 0.1, 1.0]), jnp.ones((2, 3)))
    >>> [round(level, 3) for level in coarse.stretch(5).s.tolist()]
    [0.0, 0.05, 0.1, 0.316, 1.0]
    """

    s: Float[Array, " levels"]
    step: Float[Array, "levels-1 dim"]

    def stretch(self, levels: int) -> "Ladder":
        """The same profile with another number of levels: every old gap gets an equal share."""
        share = jnp.linspace(0.0, 1.0, self.s.size)
        return self.onto(_at_shares(self.s, share, levels))

    @eqx.filter_jit
    def onto(self, s: Float[Array, " other"]) -> "Ladder":
        """The steps carried over to other levels."""
        old, new = _stretched(self.s, self.s[1]), _stretched(s, self.s[1])
        carry = jax.vmap(lambda column: jnp.interp(new[1:], old[1:], column), in_axes=1, out_axes=1)
        return Ladder(s, jnp.exp(carry(jnp.log(self.step))))


@jax.jit
def equalise(s: Float[Array, " levels"], rejection: Float[Array, " levels-1"]) -> Float[Array, " levels"]:
    r"""The levels between which every swap would be rejected equally often.

    The cumulative communication barrier $\Lambda(s_k) = \sum_{j<k} r_j$ is interpolated and
    inverted at equal shares of the global barrier $\Lambda = \Lambda(1)$: algorithm 2 of Syed,
    Bouchard-Côté, Deligiannidis & Doucet, Non-reversible parallel tempering: a scalable highly
    parallel MCMC scheme, JRSS B 84 (2022), 321-350 (arXiv 1905.02939).

    >>> [round(s, 3) for s in equalise(jnp.array([0.0, 0.5, 1.0]), jnp.array([0.75, 0.25])).tolist()]
    [0.0, 0.333, 1.0]
    """
    # A gap never seen rejecting keeps a little width, or two levels would fall together.
    barrier = jnp.cumsum(jnp.maximum(rejection, 1e-3))
    share = jnp.concatenate([jnp.zeros(1, s.dtype), barrier / barrier[-1]])
    return _at_shares(s, share, s.size)


def equal_distance(ladder: Ladder, overlap: Float[Array, " gaps"]) -> Ladder:
    r"""The ladder with as many levels at equal thermodynamic distance from one to the next.

    To leading order the effective share of weights $e^{-\Delta s V}$ is
    $e^{-\Delta s^2 \mathrm{Var}V}$, so the length of a gap is $\sqrt{-\log \mathrm{overlap}}$.

    Args:
        ladder: levels and steps.
        overlap: effective share of equal weights after reweighting across each gap.

    >>> coarse = Ladder(jnp.array([0.0, 0.5, 1.0]), jnp.ones((2, 1)))
    >>> [round(s, 3) for s in equal_distance(coarse, jnp.exp(-jnp.array([9.0, 1.0]))).s.tolist()]
    [0.0, 0.333, 1.0]
    """
    length = jnp.sqrt(jnp.maximum(-jnp.log(overlap), 1e-6))
    share = jnp.concatenate([jnp.zeros(1, length.dtype), jnp.cumsum(length) / jnp.sum(length)])
    return ladder.onto(_at_shares(ladder.s, share.astype(ladder.s.dtype), ladder.s.size))


@partial(jax.jit, static_argnames="count")
def _at_shares(s: Float[Array, " levels"], share: Float[Array, " levels"], count: int) -> Float[Array, " {count}"]:
    """`count` levels at equal shares, given each old level's share of the way."""
    wanted = jnp.linspace(0.0, 1.0, count)
    place = jnp.interp(wanted, share, _stretched(s, s[1]))
    inside = jnp.where(place < 1, place, jnp.exp(jnp.maximum(place, 1.0) - 1)) * s[1]
    return inside.at[0].set(0.0).at[-1].set(1.0)


def _stretched(s: Float[Array, " n"], first: Float[Array, ""]) -> Float[Array, " n"]:
    """A coordinate in which barriers grow about evenly: linear up to `first`, logarithmic beyond.

    Near 0 the spread of V under π_s hardly changes with s; further up it falls like 1/s, as it
    does exactly for a Gaussian whose width shrinks.
    """
    return jnp.where(s < first, s / first, 1 + jnp.log(jnp.maximum(s, first) / first))
