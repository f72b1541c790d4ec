"""Annealed importance sampling: a fixed ladder, no resampling, weights exact at any length."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.baselines.geometric import GeometricPath, Point, geometric_path
from temperflow.baselines.ladder import Ladder
from temperflow.baselines.moves import AbstractMove, Hamiltonian, fold_keys, repeat_move
from temperflow.baselines.options import require_counts, require_ladder
from temperflow.baselines.tempered_smc import pilot_ladder
from temperflow.proposals.weights import effective_sample_size, log_mean_exp, log_mean_exp_error
from temperflow.sampling.draws import Draws
from temperflow.targets.base import Target


class AnnealingInfo(eqx.Module):
    """What a run of `annealed_importance` tells beside its draws.

    Args:
        ladder: the levels and steps it ran with.
        acceptance: mean acceptance probability at each level above the source.
        ess: effective share of the weights after each level: where it falls, more levels are due.

    >>> ladder = Ladder(jnp.array([0.0, 0.25, 0.5, 1.0]), jnp.ones((3, 2)))
    >>> info = AnnealingInfo(ladder, acceptance=jnp.array([0.8, 0.7, 0.7]), ess=jnp.array([0.9, 0.8, 0.1]))
    >>> worst = int(jnp.argmin(jnp.diff(info.ess))) + 1
    >>> info.ladder.s[worst : worst + 2].tolist()  # the gap in which the weights are lost
    [0.5, 1.0]
    """

    ladder: Ladder
    acceptance: Float[Array, " gaps"]
    ess: Float[Array, " gaps"]


def annealed_importance(
    key: PRNGKeyArray,
    target: Target,
    *,
    n: int = 2500,
    steps: int = 100,
    moves: int = 1,
    move: AbstractMove | None = None,
    ladder: Ladder | None = None,
    source_scale: float | None = None,
    pilot: int = 256,
) -> tuple[Draws, AnnealingInfo]:
    r"""Anneal independent particles from the source to the target (Neal 2001).

    $\log w = -\sum_k (s_k - s_{k-1})\,V(x_{k-1})$, with $x_k$ drawn from $x_{k-1}$ by a kernel
    that leaves $\pi_{s_k}$ invariant. $E[w] = Z$ exactly, for any ladder and any kernel
    (MATH.md section 5, with the drift left out).

    Args:
        key: all the randomness.
        target: what to sample.
        n: particles, which are the draws.
        steps: gaps between levels; ignored where `ladder` is given.
        moves: local moves at each level.
        move: the local move; `Hamiltonian()` by default.
        ladder: levels and steps. By default those of a small tempered SMC run of other
            particles, stretched to `steps`; its calls are counted.
        source_scale: $\sigma_0$; the target's own by default.
        pilot: particles of that small run.

    >>> target = Target(lambda x: -0.5 * jnp.sum(x**2), dim=2, source_scale=2.0)
    >>> ladder = Ladder(jnp.linspace(0.0, 1.0, 5), jnp.ones((4, 2)))
    >>> draws, info = annealed_importance(jax.random.key(0), target, n=500, ladder=ladder)
    >>> draws.energy_calls  # 500 * (1 + 4 levels * 3 leapfrog steps)
    6500
    >>> bool(abs(draws.log_evidence - jnp.log(2 * jnp.pi)) < 4 * draws.log_evidence_error)
    True
    """
    move = Hamiltonian() if move is None else move
    require_counts(n=(n, 2), steps=(steps, 1), moves=(moves, 1), pilot=(pilot, 2))
    path = geometric_path(target, source_scale)
    calls = 0
    if ladder is None:
        ladder, calls = pilot_ladder(
            jax.random.fold_in(key, 1), target, steps + 1, particles=pilot, move=move, source_scale=source_scale
        )
    require_ladder(ladder, target.dim)
    points, log_weight, info = _anneal(jax.random.fold_in(key, 0), path, move, moves, ladder, n)
    calls += n * (1 + ladder.step.shape[0] * moves * move.calls)
    draws = Draws(
        points.x,
        log_weight,
        log_mean_exp(log_weight),
        log_mean_exp_error(log_weight),
        -points.energy,
        None,
        calls,
    )
    return draws, info


def log_increment(gap: Float[Array, ""], potential: Float[Array, ""]) -> Float[Array, ""]:
    """What a step from s to s + gap adds to a log weight; taken before the particle moves."""
    return -gap * potential


@eqx.filter_jit
def _anneal(
    key: PRNGKeyArray,
    path: GeometricPath,
    move: AbstractMove,
    moves: int,
    ladder: Ladder,
    n: int,
) -> tuple[Point, Float[Array, " n"], AnnealingInfo]:
    start = jax.random.fold_in(key, 0)
    points = jax.vmap(lambda particle: path.evaluate(path.draw(particle), with_gradient=move.uses_gradient))(
        fold_keys(start, n)
    )

    def level(carry, rung):
        points, log_weight = carry
        index, gap, s, step = rung

        def one(key, point, log_weight):
            log_weight = log_weight + log_increment(gap, path.potential(point))
            point, acceptance = repeat_move(key, move, moves, path, s, step, point)
            return point, log_weight, acceptance

        keys = fold_keys(jax.random.fold_in(key, index), n)
        points, log_weight, acceptance = jax.vmap(one)(keys, points, log_weight)
        return (points, log_weight), (jnp.mean(acceptance), effective_sample_size(log_weight))

    s = ladder.s
    rungs = (jnp.arange(1, s.size), jnp.diff(s), s[1:], ladder.step)
    (points, log_weight), (acceptance, ess) = jax.lax.scan(level, (points, jnp.zeros(n, s.dtype)), rungs)
    return points, log_weight, AnnealingInfo(ladder, acceptance, ess)
