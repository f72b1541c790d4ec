"""Adaptive tempered sequential Monte Carlo: reweight, resample, move, one temperature at a time."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from temperflow.baselines.geometric import GeometricPath, Point, geometric_path
from temperflow.baselines.ladder import Ladder
from temperflow.baselines.moves import (
    AbstractMove,
    Hamiltonian,
    first_step,
    fold_keys,
    repeat_move,
)
from temperflow.baselines.options import require_counts, require_ladder, require_share
from temperflow.proposals.weights import (
    effective_sample_size,
    log_mean_exp,
    log_mean_exp_error,
    normalised,
    systematic_resample,
)
from temperflow.sampling.draws import Draws
from temperflow.targets.base import Target


class SmcInfo(eqx.Module):
    """What a run of `tempered_smc` tells beside its draws.

    Args:
        ladder: the levels it climbed and the steps in use when it left each level.
        acceptance: mean acceptance probability at each level above the source.
        ess: effective share within an island after each reweighting, averaged over islands.
        resampled: share of the islands that resampled there.
        log_evidence: log Z of each island.
        finished: whether the ladder reached 1 by itself; if not, the last gap was forced, which
            leaves the weights right but may leave few of them.
    """

    ladder: Ladder
    acceptance: Float[Array, " levels-1"]
    ess: Float[Array, " levels-1"]
    resampled: Float[Array, " levels-1"]
    log_evidence: Float[Array, " islands"]
    finished: bool = eqx.field(static=True)


def tempered_smc(
    key: PRNGKeyArray,
    target: Target,
    *,
    particles: int = 500,
    islands: int = 8,
    moves: int = 5,
    move: AbstractMove | None = None,
    overlap: float = 0.7,
    resample_below: float = 0.5,
    max_levels: int = 200,
    ladder: Ladder | None = None,
    source_scale: float | None = None,
) -> tuple[Draws, SmcInfo]:
    r"""Sequential Monte Carlo along the geometric path (Del Moral, Doucet & Jasra 2006).

    Each level reweights by $e^{-(s'-s)V}$, resamples the islands whose effective share is low
    (systematically, multiplying the mean weight into the evidence first, MATH.md section 5), and
    moves every particle `moves` times. $\hat Z$ is the mean over islands of the product of mean
    weights. Islands share the ladder and nothing else, so their scatter is the error.

    Without `ladder` the next s is found by bisection so that the conditional effective sample
    size (Zhou, Johansen & Aston 2016) is `overlap`, and the step is tuned on the particles
    themselves: $\hat Z$ then has a bias of order 1/particles. Given a ladder, from an earlier
    run's info, nothing is adapted and $E[\hat Z] = Z$ exactly.

    It cannot find a mode that its particles have left behind: compare several islands, and trust
    parallel tempering more.

    Args:
        key: all the randomness.
        target: what to sample.
        particles: particles of an island; all of them are draws.
        islands: independent populations.
        moves: local moves at each level.
        move: the local move; `Hamiltonian()` by default.
        overlap: conditional effective share aimed at from one level to the next.
        resample_below: effective share under which an island resamples.
        max_levels: levels after which the ladder jumps to 1.
        ladder: levels and steps to keep to.
        source_scale: $\sigma_0$; the target's own by default.

    >>> target = Target(lambda x: -0.5 * jnp.sum(x**2) / 0.01, dim=2)
    >>> draws, info = tempered_smc(jax.random.key(0), target, particles=200, islands=4, moves=2)
    >>> bool(abs(draws.log_evidence - jnp.log(0.02 * jnp.pi)) < 0.3)
    True
    """
    move = Hamiltonian() if move is None else move
    require_counts(particles=(particles, 2), islands=(islands, 1), moves=(moves, 1), max_levels=(max_levels, 1))
    require_share(overlap=overlap, resample_below=resample_below)
    if ladder is not None:
        require_ladder(ladder, target.dim)
        max_levels = ladder.step.shape[0]
    path = geometric_path(target, source_scale)
    climb = _climb(
        key, path, move, moves, (islands, particles), max_levels, ladder,
        jnp.asarray(overlap), jnp.asarray(resample_below),
    )  # fmt: skip
    return _harvest(climb, ladder is not None, moves * move.calls)


class _Climb(eqx.Module):
    """The state between levels; histories are filled up to `level`."""

    points: Point
    log_weight: Float[Array, "islands particles"]
    log_evidence: Float[Array, " islands"]
    step: Float[Array, " dim"]
    level: Int[Array, ""]
    jumped: Array
    s: Float[Array, " levels"]
    steps: Float[Array, "levels-1 dim"]
    acceptance: Float[Array, " levels-1"]
    ess: Float[Array, " levels-1"]
    resampled: Float[Array, " levels-1"]


@eqx.filter_jit
def _climb(
    key: PRNGKeyArray,
    path: GeometricPath,
    move: AbstractMove,
    moves: int,
    shape: tuple[int, int],
    max_levels: int,
    ladder: Ladder | None,
    overlap: Float[Array, ""],
    resample_below: Float[Array, ""],
) -> _Climb:
    def born(key: PRNGKeyArray) -> Point:
        return path.evaluate(path.draw(key), with_gradient=move.uses_gradient)

    points = jax.vmap(jax.vmap(born))(_crowd_keys(jax.random.fold_in(key, 0), shape))
    dtype, record = points.x.dtype, jnp.zeros(max_levels, points.x.dtype)
    first = _Climb(
        points,
        jnp.zeros(shape, dtype),
        jnp.zeros(shape[0], dtype),
        first_step(path),
        jnp.array(0),
        jnp.array(False),
        jnp.zeros(max_levels + 1, dtype),
        jnp.ones((max_levels, path.target.dim), dtype),
        record,
        record,
        record,
    )

    def unfinished(climb: _Climb) -> Array:
        return climb.s[climb.level] < 1

    def one_level(climb: _Climb) -> _Climb:
        level, now = climb.level, climb.s[climb.level]
        potential = jax.vmap(jax.vmap(path.potential))(climb.points)
        if ladder is None:
            wanted = _next_level(now, climb.log_weight, potential, overlap)
            jumped = (level == max_levels - 1) & (wanted < 1)
            then = jnp.where(jumped, 1.0, wanted)
        else:
            jumped, then = jnp.array(False), ladder.s[level + 1]
        log_weight = climb.log_weight - (then - now) * potential
        ess = jax.vmap(effective_sample_size)(log_weight)
        level_key = jax.random.fold_in(key, level + 1)
        choose_key, move_key = jax.random.split(level_key)
        poor = ess < resample_below
        points, log_weight, gained = jax.vmap(_resample)(
            fold_keys(choose_key, shape[0]), climb.points, log_weight, poor
        )
        if ladder is None:
            step = climb.step * _relative_scales(climb.step, points.x, log_weight)
        else:
            step = ladder.step[level]
        points, step, acceptance = _rejuvenate(move_key, path, move, moves, then, step, points, adapt=ladder is None)
        return _Climb(
            points,
            log_weight,
            climb.log_evidence + gained,
            step,
            level + 1,
            jumped,
            climb.s.at[level + 1].set(then),
            climb.steps.at[level].set(step),
            climb.acceptance.at[level].set(acceptance),
            climb.ess.at[level].set(jnp.mean(ess)),
            climb.resampled.at[level].set(jnp.mean(poor.astype(dtype))),
        )

    return jax.lax.while_loop(unfinished, one_level, first)


def _crowd_keys(key: PRNGKeyArray, shape: tuple[int, int]) -> Shaped[Array, "islands particles ..."]:
    return jax.vmap(lambda island: fold_keys(island, shape[1]))(fold_keys(key, shape[0]))


def _next_level(
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

    def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        good = share(jnp.exp(middle)) >= reachable
        return jnp.where(good, middle, low), jnp.where(good, high, middle)

    low, _ = jax.lax.fori_loop(0, 40, halve, (top - 70.0, top))
    nudged = jnp.maximum(now + jnp.exp(low), jnp.nextafter(now, jnp.ones_like(now)))
    return jnp.where(share(most) >= reachable, 1.0, jnp.minimum(nudged, 1.0))


def _resample(
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


def _relative_scales(
    step: Float[Array, " dim"],
    x: Float[Array, "islands particles dim"],
    log_weight: Float[Array, "islands particles"],
) -> Float[Array, " dim"]:
    """Factors that bring the step's profile over coordinates to that of the particles' spread."""
    share = jnp.expand_dims(jax.vmap(normalised)(log_weight) / log_weight.shape[0], 2)
    mean = jnp.sum(share * x, axis=(0, 1), keepdims=True)
    log_spread = 0.5 * jnp.log(jnp.sum(share * (x - mean) ** 2, axis=(0, 1)))
    wanted = log_spread - jnp.mean(log_spread)
    # Never more than e^5 from the mean, and no opinion where the particles have collapsed.
    wanted = jnp.where(jnp.all(jnp.isfinite(wanted)), jnp.clip(wanted, -5.0, 5.0), 0.0)
    has = jnp.log(step) - jnp.mean(jnp.log(step))
    return jnp.exp(wanted - has)


def _rejuvenate(
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

        keys = _crowd_keys(jax.random.fold_in(key, turn), shape)
        points, probability = jax.vmap(jax.vmap(one))(keys, points)
        acceptance = jnp.mean(probability)
        if adapt:
            step = step * jnp.exp(acceptance - move.target_acceptance)
        return (points, step), acceptance

    (points, step), acceptance = jax.lax.scan(once, (points, step), jnp.arange(moves))
    return points, step, jnp.mean(acceptance)


def _harvest(climb: _Climb, fixed: bool, calls_a_level: int) -> tuple[Draws, SmcInfo]:
    """Trim the histories and weigh each island by its evidence."""
    levels = int(climb.level)
    islands, particles = climb.log_weight.shape
    island_evidence = climb.log_evidence + jax.vmap(log_mean_exp)(climb.log_weight)
    log_weight = climb.log_weight + jnp.expand_dims(climb.log_evidence, 1)
    error = log_mean_exp_error(island_evidence) if islands > 1 else jnp.array(jnp.inf)
    draws = Draws(
        climb.points.x.reshape(islands * particles, -1),
        log_weight.reshape(-1),
        log_mean_exp(island_evidence),
        error.astype(log_weight.dtype),
        -climb.points.energy.reshape(-1),
        None,
        islands * particles * (1 + levels * calls_a_level),
    )
    info = SmcInfo(
        Ladder(climb.s[: levels + 1], climb.steps[:levels]),
        climb.acceptance[:levels],
        climb.ess[:levels],
        climb.resampled[:levels],
        island_evidence,
        not bool(climb.jumped),
    )
    return draws, info
