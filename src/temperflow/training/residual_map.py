"""Where along time and temperature the continuity equation is still violated."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from temperflow.models import Divergence, Model
from temperflow.paths import Continuum
from temperflow.training.buffer import Location
from temperflow.training.loss import residuals

# Locations pushed through the control at once.
CHUNK = 4096


class ResidualMap(eqx.Module):
    r"""The residual of MATH.md section 2 in cells of $(t, \beta)$.

    Args:
        rms: root of the mean of $r^2$ over a cell's valid locations, NaN where there are none. With
            a stochastic divergence the mean is of a product of two estimates: zero where it is negative.
        count: how many locations that was.

    >>> import jax.numpy as jnp
    >>> cells = binned(
    ...     squares=jnp.array([1.0, 9.0, 4.0, jnp.nan]), t=jnp.array([0.1, 0.2, 0.9, 0.9]),
    ...     beta=jnp.ones(4), t_edges=jnp.array([0.0, 0.5, 1.0]), beta_edges=jnp.array([0.0, 1.0]))
    >>> cells.count.tolist(), [round(float(rms), 3) for rms in cells.rms[:, 0]]
    ([[2], [1]], [2.236, 2.0])
    """

    rms: Float[Array, "times temperatures"]
    count: Int[Array, "times temperatures"]


def residual_map(
    key: PRNGKeyArray,
    model: Model,
    locations: Location,
    continuum: Continuum,
    divergence: Divergence,
    t_edges: Float[Array, " t_edges"],
    beta_edges: Float[Array, " b_edges"],
) -> ResidualMap:
    """Evaluate the residual at every location (one leading axis) and average it by cell."""

    def square(pair: tuple[PRNGKeyArray, Location]) -> Float[Array, ""]:
        first, second = residuals(pair[0], model, pair[1], continuum, divergence)
        return first * second

    keys = jax.random.split(key, locations.t.shape[0])
    squares = jax.lax.map(square, (keys, locations), batch_size=CHUNK)
    squares = jnp.where(locations.valid, squares, jnp.nan)
    return binned(squares, locations.t, locations.beta, t_edges, beta_edges)


def binned(
    squares: Float[Array, " n"],
    t: Float[Array, " n"],
    beta: Float[Array, " n"],
    t_edges: Float[Array, " t_edges"],
    beta_edges: Float[Array, " b_edges"],
) -> ResidualMap:
    """Root mean squares by cell; a value on an edge belongs to the cell above it, the last edge to the last cell."""
    times, temperatures = t_edges.size - 1, beta_edges.size - 1
    row = jnp.clip(jnp.searchsorted(t_edges, t, side="right") - 1, 0, times - 1)
    column = jnp.clip(jnp.searchsorted(beta_edges, beta, side="right") - 1, 0, temperatures - 1)
    known = jnp.isfinite(squares)
    cell = row * temperatures + column
    shape = (times, temperatures)
    count = jnp.zeros(times * temperatures, jnp.int32).at[cell].add(known.astype(jnp.int32))
    total = jnp.zeros(times * temperatures, squares.dtype).at[cell].add(jnp.where(known, squares, 0.0))
    mean = jnp.maximum(total, 0.0) / jnp.maximum(count, 1).astype(squares.dtype)
    return ResidualMap(
        jnp.where(count > 0, jnp.sqrt(mean), jnp.nan).reshape(shape),
        count.reshape(shape),
    )
