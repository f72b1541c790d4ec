"""Arithmetic of log weights: means, effective sizes, resampling. All with the maximum removed first.

Each is one program: called from the host, operation by operation, they would be a dozen to compile.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


@jax.jit
def log_mean_exp(log_weight: Float[Array, " n"]) -> Float[Array, ""]:
    """log of the mean of e^{log_weight}; minus infinity when every weight is zero."""
    return jax.nn.logsumexp(log_weight) - jnp.log(log_weight.size)


@jax.jit
def normalised(log_weight: Float[Array, " n"]) -> Float[Array, " n"]:
    """Weights that sum to one. If every weight is zero they are equal: nothing is known."""
    shares = jnp.exp(log_weight - jax.nn.logsumexp(_finite_somewhere(log_weight)))
    return jnp.where(jnp.any(jnp.isfinite(log_weight)), shares, 1.0 / log_weight.size)


@jax.jit
def effective_sample_size(log_weight: Float[Array, " n"]) -> Float[Array, ""]:
    """(Σw)² / (n Σw²), a share in [1/n, 1] (MATH.md section 6)."""
    return 1.0 / (log_weight.size * jnp.sum(normalised(log_weight) ** 2))


@jax.jit
def log_mean_exp_error(log_weight: Float[Array, " n"]) -> Float[Array, ""]:
    """Standard error of `log_mean_exp` for independent weights, by the delta method."""
    n = log_weight.size
    relative_variance = n * jnp.sum((normalised(log_weight) - 1.0 / n) ** 2)
    return jnp.sqrt(relative_variance / (n - 1))


@partial(jax.jit, static_argnames="count")
def systematic_resample(key: PRNGKeyArray, log_weight: Float[Array, " n"], count: int) -> Int[Array, " count"]:
    """Indices of `count` draws, each i kept floor(count w_i) or one more time.

    One uniform number places a comb of `count` equal teeth on the cumulative weights, so the
    expected number of copies is exactly `count * w_i`.
    """
    cumulative = jnp.cumsum(normalised(log_weight))
    teeth = (jnp.arange(count, dtype=log_weight.dtype) + jax.random.uniform(key, dtype=log_weight.dtype)) / count
    # Rounding may leave the last cumulative weight under one, so scale the teeth, not the weights;
    # and it may lift the last tooth onto the whole sum, behind which only dead walkers stand.
    total = cumulative[-1]
    return jnp.searchsorted(cumulative, jnp.minimum(teeth * total, jnp.nextafter(total, 0.0)), side="right")


def _finite_somewhere(log_weight: Float[Array, " n"]) -> Float[Array, " n"]:
    return jnp.where(jnp.any(jnp.isfinite(log_weight)), log_weight, 0.0)
