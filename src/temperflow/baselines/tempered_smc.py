"""Adaptive tempered sequential Monte Carlo: reweight, resample, move, one temperature at a time."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from temperflow.baselines.geometric import GeometricPath, Point, geometric_path
from temperflow.baselines.ladder import Ladder
from temperflow.baselines.moves import AbstractMove, Hamiltonian, first_step, fold_keys, follow_spread
from temperflow.baselines.options import require_counts, require_fraction, require_ladder
from temperflow.baselines.population import crowd_keys, next_level, rejuvenate, resample_if, spread
from temperflow.proposals.weights import effective_sample_size, log_mean_exp, log_mean_exp_error
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

    >>> ladder = Ladder(jnp.array([0.0, 0.25, 1.0]), jnp.ones((2, 3)))
    >>> shares = jnp.array([0.7, 0.7])
    >>> info = SmcInfo(ladder, shares, shares, jnp.array([0.0, 1.0]), jnp.log(jnp.array([1.0, 3.0])), finished=True)
    >>> round(float(log_mean_exp(info.log_evidence)), 3)  # log 2: islands are averaged by Z, not by log Z
    0.693
    >>> round(float(log_mean_exp_error(info.log_evidence)), 3)  # by their scatter
    0.5
    """

    ladder: Ladder
    acceptance: Float[Array, " gaps"]
    ess: Float[Array, " gaps"]
    resampled: Float[Array, " gaps"]
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
        resample_below: effective share under which an island resamples; 0 never, 1 always.
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
    require_fraction(0 < overlap < 1, overlap=overlap)
    require_fraction(0 <= resample_below <= 1, resample_below=resample_below)
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
    acceptance: Float[Array, " gaps"]
    ess: Float[Array, " gaps"]
    resampled: Float[Array, " gaps"]


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

    points = jax.vmap(jax.vmap(born))(crowd_keys(jax.random.fold_in(key, 0), shape))
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
            wanted = next_level(now, climb.log_weight, potential, overlap)
            jumped = (level == max_levels - 1) & (wanted < 1)
            then = jnp.where(jumped, 1.0, wanted)
        else:
            jumped, then = jnp.array(False), ladder.s[level + 1]
        log_weight = climb.log_weight - (then - now) * potential
        ess = jax.vmap(effective_sample_size)(log_weight)
        level_key = jax.random.fold_in(key, level + 1)
        choose_key, move_key = jax.random.split(level_key)
        poor = ess < resample_below
        points, log_weight, gained = jax.vmap(resample_if)(
            fold_keys(choose_key, shape[0]), climb.points, log_weight, poor
        )
        step = follow_spread(climb.step, spread(points.x, log_weight)) if ladder is None else ladder.step[level]
        points, step, acceptance = rejuvenate(move_key, path, move, moves, then, step, points, adapt=ladder is None)
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


def pilot_ladder(
    key: PRNGKeyArray,
    target: Target,
    levels: int,
    *,
    particles: int,
    move: AbstractMove,
    source_scale: float | None,
) -> tuple[Ladder, int]:
    """The ladder of a small run, stretched to `levels`, and the target calls it took.

    It is drawn from other particles than those that will climb it, so it biases nothing.
    """
    draws, info = tempered_smc(
        key, target, particles=particles, islands=1, moves=2, move=move, source_scale=source_scale
    )  # fmt: skip
    return info.ladder.stretch(levels), draws.energy_calls
