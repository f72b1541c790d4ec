"""What one level of tempered SMC does to its particles: choose the level, resample, follow, move."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from temperflow.baselines.geometric import GeometricPath, Point
from temperflow.baselines.moves import AbstractMove, fold_keys, repeat_move
from temperflow.proposals.weights import log_mean_exp, normalised, systematic_resample


def crowd_keys(key: PRNGKeyArray, shape: tuple[int, int]) -> Shaped[Array, "islands particles ..."]:
    """One key for each particle of each island."""
    return jax.vmap(lambda island: fold_keys(island, shape[1]))(fold_keys(key, shape[0]))


def next_level(
    now: Float[Array, ""],
    log_weight: Float[Array, "islands particles"],
    potential: Float[Array, "islands particles"],
    overlap: Float[Array, ""],
) -> Float[Array, ""]:
    """Bisect log(s' - s) for the conditional effective share, averaged over islands."""
    lse = jax.nn.logsumexp

    def share(gap: Float[Array, ""]) -> Float[Array, ""]:
        increment = -gap * potential
        first = lse(log_weight + increment, axis=1)
        second = lse(log_weight + 2 * increment, axis=1)
        share = jnp.exp(2 * first - second - lse(log_weight, axis=1))
        # An island without living particles has no say.
        return jnp.mean(jnp.where(jnp.isfinite(share), share, 1.0))

    # Particles outside the support die at any gap however small; only the rest can be spared.
    reachable = overlap * share(jnp.asarray(jnp.finfo(now.dtype).tiny, now.dtype))
    most = 1 - now
    top = jnp.log(most)

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        good = share(jnp.exp(middle)) >= reachable
        return jnp.where(good, middle, low), jnp.where(good, high, middle)

    low, _ = jax.lax.fori_loop(0, 40, halve, (top - 70.0, top))
    nudged = jnp.maximum(now + jnp.exp(low), jnp.nextafter(now, jnp.ones_like(now)))
    return jnp.where(share(most) >= reachable, 1.0, jnp.minimum(nudged, 1.0))


def resample_if(
    key: PRNGKeyArray,
    points: Point,
    log_weight: Float[Array, " particles"],
    poor: Array,
) -> tuple[Point, Float[Array, " particles"], Float[Array, ""]]:
    """Resample if `poor`; the mean weight moves into the evidence before the weights are reset."""
    count = log_weight.size
    chosen = jnp.where(poor, systematic_resample(key, log_weight, count), jnp.arange(count, dtype=jnp.int32))
    gained = jnp.where(poor, log_mean_exp(log_weight), 0.0)
    points = jax.tree.map(lambda leaf: leaf[chosen], points)
    return points, jnp.where(poor, 0.0, log_weight), gained


def spread(
    x: Float[Array, "islands particles dim"], log_weight: Float[Array, "islands particles"]
) -> Float[Array, " dim"]:
    """Variance of each coordinate over all islands together, an equal say for each."""
    share = jnp.expand_dims(jax.vmap(normalised)(log_weight) / log_weight.shape[0], 2)
    mean = jnp.sum(share * x, axis=(0, 1), keepdims=True)
    return jnp.sum(share * (x - mean) ** 2, axis=(0, 1))


def rejuvenate(
    key: PRNGKeyArray,
    path: GeometricPath,
    move: AbstractMove,
    moves: int,
    s: Float[Array, ""],
    step: Float[Array, " dim"],
    points: Point,
    *,
    adapt: bool,
) -> tuple[Point, Float[Array, " dim"], Float[Array, ""]]:
    """`moves` moves of everyone; if `adapt`, the step follows the crowd's acceptance."""
    shape = (points.energy.shape[0], points.energy.shape[1])

    def once(carry, turn):
        points, step = carry

        def one(key: PRNGKeyArray, point: Point) -> tuple[Point, Float[Array, ""]]:
            return repeat_move(key, move, 1, path, s, step, point)

        keys = crowd_keys(jax.random.fold_in(key, turn), shape)
        points, probability = jax.vmap(jax.vmap(one))(keys, points)
        acceptance = jnp.mean(probability)
        if adapt:
            step = step * jnp.exp(acceptance - move.target_acceptance)
        return (points, step), acceptance

    (points, step), acceptance = jax.lax.scan(once, (points, step), jnp.arange(moves))
    return points, step, jnp.mean(acceptance)
