"""Swaps between neighbouring levels of parallel tempering, and who has travelled how far."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from temperflow.baselines.moves import acceptance_probability

OUTBOUND, RETURNING = 1, 2


def swap_log_ratio(s: Float[Array, " levels"], potential: Float[Array, " levels"]) -> Float[Array, " levels-1"]:
    r"""$\log\frac{\pi_k(x_{k+1})\,\pi_{k+1}(x_k)}{\pi_k(x_k)\,\pi_{k+1}(x_{k+1})} = (s_{k+1}-s_k)(V_{k+1}-V_k)$.

    A point outside the support, with V infinite, comes down from any level and never goes up.
    """
    return jnp.diff(s) * jnp.diff(potential)


def choose_swaps(
    key: PRNGKeyArray,
    s: Float[Array, " levels"],
    potential: Float[Array, " levels"],
    parity: int | Int[Array, ""],
) -> tuple[Int[Array, " levels"], Float[Array, " levels-1"]]:
    """Who comes to each level, and the probability with which each gap was to be swapped.

    Only the gaps of the given parity are tried: they share no level, so all of them at once.
    Trying even and odd gaps in turn, not at random, is what makes a point that has moved up
    go on moving up (Okabe et al. 2001; Syed et al. 2022).

    Args:
        key: one uniform number a gap.
        s: the levels.
        potential: V of the point at each level.
        parity: 0 or 1.

    >>> chosen, _ = choose_swaps(jax.random.key(0), jnp.array([0.0, 0.5, 1.0]), jnp.array([0.0, 9.0, 8.0]), 0)
    >>> chosen.tolist()
    [1, 0, 2]
    """
    probability = acceptance_probability(swap_log_ratio(s, potential))
    gap = jnp.arange(s.size - 1)
    drawn = jax.random.uniform(key, probability.shape, probability.dtype)
    swapped = ((gap % 2 == parity) & (drawn < probability)).astype(gap.dtype)
    none = jnp.zeros(1, gap.dtype)
    chosen = jnp.arange(s.size) + jnp.concatenate([swapped, none]) - jnp.concatenate([none, swapped])
    return chosen, probability


class Passports(eqx.Module):
    """Where the point at each level has been: swaps are worth nothing unless someone travels.

    Args:
        stamp: `OUTBOUND` since its last stay at the source, `RETURNING` once it has been at the
            target after that, 0 before it has been at the source.
        trips: round trips source, target, source that have ended in this replica.
    """

    stamp: Int[Array, " levels"]
    trips: Int[Array, ""]

    @staticmethod
    def blank(levels: int) -> "Passports":
        return Passports(jnp.zeros(levels, jnp.int32), jnp.zeros((), jnp.int32))

    def after(self, chosen: Int[Array, " levels"]) -> "Passports":
        """The passports after the swaps that `choose_swaps` chose.

        >>> there = Passports(jnp.array([OUTBOUND, 0]), jnp.array(0)).after(jnp.array([1, 0]))
        >>> there.after(jnp.array([1, 0])).trips.tolist()
        1
        """
        stamp = self.stamp[chosen]
        ended = (stamp[0] == RETURNING).astype(self.trips.dtype)
        top = jnp.where(stamp[-1] == OUTBOUND, RETURNING, stamp[-1])
        return Passports(stamp.at[-1].set(top).at[0].set(OUTBOUND), self.trips + ended)
