"""The adaptive bias of ξ: what keeps hot and cold equally visited while F is still wrong."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def flattened(
    bias: Float[Array, " knots"], xi: Float[Array, "*batch"], edge: float, rate: float
) -> Float[Array, " knots"]:
    r"""One step of $\psi_{bias}$ against the visits of ξ (MATH.md section 3).

    The visits are binned by the hat functions of the bias's own knots on $[0, \tilde\Delta]$;
    where they exceed their mean the bias falls, in the manner of Wang and Landau (2001). The
    first knot stays at zero, since a constant means nothing.

    >>> import jax.numpy as jnp
    >>> flat = jnp.linspace(-2.0, 2.0, 4001)
    >>> bool(jnp.max(jnp.abs(flattened(jnp.zeros(5), flat, 2.0, 0.1))) < 1e-3)
    True
    """
    cells = bias.size - 1
    place = jnp.abs(xi.ravel()) / edge * cells
    inside = (place <= cells).astype(bias.dtype)
    hats = jax.vmap(lambda knot: jnp.sum(inside * jnp.maximum(1.0 - jnp.abs(place - knot), 0.0)))(
        jnp.arange(cells + 1, dtype=bias.dtype)
    )
    # The two outer hats are half as wide as the others.
    visits = hats.at[jnp.array([0, cells])].multiply(2.0) * cells / jnp.maximum(jnp.sum(inside), 1.0)
    moved = bias - rate * (visits - 1.0)
    return moved - moved[0]
