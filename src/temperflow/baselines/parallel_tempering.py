"""Non-reversible parallel tempering: a chain at every level of the path, and neighbours that trade places."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from temperflow.baselines.geometric import GeometricPath, Point, geometric_path
from temperflow.baselines.ladder import Ladder, equalise
from temperflow.baselines.moves import AbstractMove, Hamiltonian, follow_spread, repeat_move
from temperflow.baselines.options import require_counts, require_ladder
from temperflow.baselines.population import crowd_keys
from temperflow.baselines.swaps import Passports, choose_swaps
from temperflow.baselines.tempered_smc import pilot_ladder
from temperflow.sampling.draws import Draws
from temperflow.targets.base import Target


class TemperingInfo(eqx.Module):
    r"""What a run of `parallel_tempering` tells beside its draws; all of it from the last round.

    Args:
        ladder: the levels and steps of the last round.
        acceptance: mean acceptance probability of the local moves at each level above the source.
        rejection: mean rejection probability of a swap across each gap. Their sum estimates the
            communication barrier $\Lambda$; about $2\Lambda + 1$ levels serve best.
        round_trips: journeys source, target, source that ended, in all replicas together. Each
            brings the target a place it did not itself find; few of them, few modes.
        log_evidence: log Z of each replica alone.

    >>> import math
    >>> ladder = Ladder(jnp.array([0.0, 0.25, 1.0]), jnp.ones((2, 3)))
    >>> shares = jnp.array([0.7, 0.7])
    >>> info = TemperingInfo(ladder, shares, jnp.array([0.9, 0.6]), round_trips=12, log_evidence=jnp.zeros(4))
    >>> barrier = float(jnp.sum(info.rejection))
    >>> math.ceil(2 * barrier + 1), info.ladder.s.size  # levels that would serve, levels there are
    (4, 3)
    """

    ladder: Ladder
    acceptance: Float[Array, " gaps"]
    rejection: Float[Array, " gaps"]
    round_trips: int = eqx.field(static=True)
    log_evidence: Float[Array, " replicas"]


def parallel_tempering(
    key: PRNGKeyArray,
    target: Target,
    *,
    n: int = 2500,
    replicas: int = 32,
    levels: int = 20,
    sweeps: int = 512,
    moves: int = 1,
    move: AbstractMove | None = None,
    ladder: Ladder | None = None,
    source_scale: float | None = None,
    pilot: int = 256,
) -> tuple[Draws, TemperingInfo]:
    r"""Run a chain at every level and swap neighbours, even gaps and odd gaps in turn (Syed et al. 2022).

    A sweep moves each level `moves` times, draws level 0 afresh from the source, then swaps. The
    sweeps come in rounds of 1, 2, 4, ... and last `sweeps`; between rounds the levels move to
    where every swap is rejected equally often (`equalise`), and within all rounds but the last
    the steps follow the acceptance. In the last round nothing is adapted: it is a Markov chain
    with invariant law $\prod_k \pi_{s_k}$, and draws and evidence come from it alone.

    $\hat Z = \prod_k \overline{e^{-(s_{k+1}-s_k)V}}$, each mean over the sweeps and replicas at
    level k (stepping stones, Xie et al. 2011). In the chain's equilibrium each factor is
    unbiased, but factors share points, so $\hat Z$ has a bias of order 1/(sweeps x replicas), and
    whatever the earlier rounds have not burnt in. The error of $\log\hat Z$ is that of
    the replicas' linearised contributions, which see every correlation within a replica.

    The draws have equal weights; those of one replica are correlated, which `Draws.ess` does not
    know: judge by `round_trips`.

    **The source is the reference.** Fresh places come only from $N(0, \sigma_0^2 I)$, so
    choose `source_scale` as wide as the domain: the scale of your prior, or `survey(...)`'s.
    A wide reference costs levels in proportion to $\sqrt d\,\log\sigma_0$; a narrow one costs modes.

    Args:
        key: all the randomness.
        target: what to sample.
        n: draws, taken evenly from the last round of every replica.
        replicas: independent copies of the whole ladder; the error needs at least 2.
        levels: levels, source and target included; ignored where `ladder` is given.
        sweeps: length of the last round; all rounds before it together are about as long.
        moves: local moves at each level in a sweep.
        move: the local move; `Hamiltonian()` by default.
        ladder: levels and steps to keep to; the rounds before the last are then burn-in only.
        source_scale: $\sigma_0$; the target's own by default.
        pilot: particles of the small tempered SMC run that gives the first ladder.

    >>> target = Target(lambda x: -0.5 * jnp.sum((x - 2.0) ** 2), dim=2)
    >>> draws, info = parallel_tempering(jax.random.key(0), target, n=400, replicas=8, levels=5, sweeps=64)
    >>> draws.x.shape, info.round_trips > 8
    ((400, 2), True)
    >>> bool(abs(draws.log_evidence - jnp.log(2 * jnp.pi)) < 4 * draws.log_evidence_error)
    True
    """
    move = Hamiltonian() if move is None else move
    require_counts(
        n=(n, 1), replicas=(replicas, 1), levels=(levels, 2), sweeps=(sweeps, 1), moves=(moves, 1), pilot=(pilot, 2)
    )
    kept = -(-n // replicas)
    if kept > sweeps:
        raise ValueError(f"n is {n}; expected at most replicas x sweeps = {replicas * sweeps}: raise one of them.")
    path = geometric_path(target, source_scale)
    fixed, calls = ladder is not None, 0
    if ladder is None:
        ladder, calls = pilot_ladder(
            jax.random.fold_in(key, 0), target, levels, particles=pilot, move=move, source_scale=source_scale
        )
    require_ladder(ladder, target.dim)
    levels = ladder.s.size

    points = _start(jax.random.fold_in(key, 1), path, move, (replicas, levels))
    still = jnp.zeros((), ladder.s.dtype)
    gain = still if fixed else still + 1.0
    tuning = [2**index for index in range((sweeps - 1).bit_length())]
    for length in tuning:
        tally = _round(
            jax.random.fold_in(key, 2 + length), path, move, moves, points, ladder, kept, jnp.asarray(length), gain
        )
        points, ladder = tally.points, ladder if fixed else _adapted(tally, ladder)
    tally = _round(jax.random.fold_in(key, 2), path, move, moves, points, ladder, kept, jnp.asarray(sweeps), still)
    a_sweep = 1 + (levels - 1) * moves * move.calls
    calls += replicas * (levels + (sum(tuning) + sweeps) * a_sweep)
    return _harvest(tally, ladder, n, calls)


class _Tally(eqx.Module):
    """The chains and what one round has added up so far; every sum is over sweeps."""

    points: Point
    passports: Passports
    step: Float[Array, "gaps dim"]
    sweeps: Int[Array, ""]
    acceptance: Float[Array, " gaps"]
    rejection: Float[Array, " gaps"]
    stones: Float[Array, "replicas gaps"]
    total: Float[Array, "gaps dim"]
    squares: Float[Array, "gaps dim"]
    x: Float[Array, "replicas kept dim"]
    energy: Float[Array, "replicas kept"]


@eqx.filter_jit
def _start(key: PRNGKeyArray, path: GeometricPath, move: AbstractMove, shape: tuple[int, int]) -> Point:
    def born(key: PRNGKeyArray) -> Point:
        return path.evaluate(path.draw(key), with_gradient=move.uses_gradient)

    return jax.vmap(jax.vmap(born))(crowd_keys(key, shape))


@eqx.filter_jit
def _round(
    key: PRNGKeyArray,
    path: GeometricPath,
    move: AbstractMove,
    moves: int,
    points: Point,
    ladder: Ladder,
    kept: int,
    length: Int[Array, ""],
    gain: Float[Array, ""],
) -> _Tally:
    """One round; its length is traced, so that all rounds share one compilation."""
    replicas, levels = points.energy.shape
    dim, dtype = path.target.dim, points.x.dtype
    s, none = ladder.s, jnp.zeros(levels - 1, dtype)

    def sweep(index: Int[Array, ""], tally: _Tally) -> _Tally:
        fresh_key, move_key, swap_key = jax.random.split(jax.random.fold_in(key, index), 3)
        fresh = _start(fresh_key, path, move, (replicas, 1))
        above = jax.tree.map(lambda leaf: leaf[:, 1:], tally.points)

        def one(key: PRNGKeyArray, s: Array, step: Array, point: Point) -> tuple[Point, Float[Array, ""]]:
            return repeat_move(key, move, moves, path, s, step, point)

        ladderwise = jax.vmap(jax.vmap(one), in_axes=(0, None, None, 0))
        above, probability = ladderwise(crowd_keys(move_key, (replicas, levels - 1)), s[1:], tally.step, above)
        acceptance = jnp.mean(probability, axis=0)
        points = jax.tree.map(lambda low, high: jnp.concatenate([low, high], axis=1), fresh, above)

        potential = jax.vmap(jax.vmap(path.potential))(points)
        stones = jax.vmap(lambda v: stone(jnp.diff(s), v[:-1]))(potential)
        swap_keys = jax.random.split(swap_key, replicas)
        chosen, swapped = jax.vmap(lambda k, v: choose_swaps(k, s, v, index % 2))(swap_keys, potential)
        points = jax.tree.map(lambda leaf: jax.vmap(lambda row, order: row[order])(leaf, chosen), points)

        rate = gain / jnp.sqrt(1.0 + index.astype(dtype))
        # The last place keeps being overwritten, so a remainder of the division costs no draw.
        slot = jnp.minimum(index // jnp.maximum(length // kept, 1), kept - 1)
        return _Tally(
            points,
            jax.vmap(Passports.after)(tally.passports, chosen),
            tally.step * jnp.exp(rate * (acceptance - move.target_acceptance))[:, None],
            tally.sweeps + 1,
            tally.acceptance + acceptance,
            tally.rejection + 1.0 - jnp.mean(swapped, axis=0),
            jnp.logaddexp(tally.stones, stones),
            tally.total + jnp.sum(points.x[:, 1:], axis=0),
            tally.squares + jnp.sum(points.x[:, 1:] ** 2, axis=0),
            tally.x.at[:, slot].set(points.x[:, -1]),
            tally.energy.at[:, slot].set(points.energy[:, -1]),
        )

    blank = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (replicas, *leaf.shape)), Passports.blank(levels))
    first = _Tally(
        points,
        blank,
        ladder.step,
        jnp.zeros_like(length),
        none,
        none,
        jnp.full((replicas, levels - 1), -jnp.inf, dtype),
        jnp.zeros((levels - 1, dim), dtype),
        jnp.zeros((levels - 1, dim), dtype),
        jnp.zeros((replicas, kept, dim), dtype),
        jnp.zeros((replicas, kept), dtype),
    )
    return jax.lax.fori_loop(0, length, sweep, first)


def stone(gap: Float[Array, " gaps"], potential: Float[Array, " gaps"]) -> Float[Array, " gaps"]:
    r"""The log weight $-(s_{k+1}-s_k)V$ of a point at level k, whose mean weight is $Z_{k+1}/Z_k$."""
    return -gap * potential


def _adapted(tally: _Tally, ladder: Ladder) -> Ladder:
    """Where the next round's levels and steps shall be."""
    count = (tally.sweeps * tally.points.energy.shape[0]).astype(ladder.s.dtype)
    variance = tally.squares / count - (tally.total / count) ** 2
    step = jax.vmap(follow_spread)(tally.step, variance)
    return Ladder(ladder.s, step).onto(equalise(ladder.s, tally.rejection / tally.sweeps.astype(ladder.s.dtype)))


def _harvest(tally: _Tally, ladder: Ladder, n: int, calls: int) -> tuple[Draws, TemperingInfo]:
    """The last round as draws and what is told beside them."""
    draws, acceptance, rejection, log_evidence = _gathered(tally, n, calls)
    trips = int(jnp.sum(tally.passports.trips))
    return draws, TemperingInfo(ladder, acceptance, rejection, trips, log_evidence)


@eqx.filter_jit
def _gathered(
    tally: _Tally, n: int, calls: int
) -> tuple[Draws, Float[Array, " gaps"], Float[Array, " gaps"], Float[Array, " replicas"]]:
    """Multiply the stepping stones and line up the draws, one of every replica in turn."""
    replicas, _, dim = tally.x.shape
    dtype = tally.stones.dtype
    sweeps = tally.sweeps.astype(dtype)
    factors = tally.stones - jnp.log(sweeps)
    mean = jax.nn.logsumexp(factors, axis=0) - jnp.log(replicas)
    contributions = jnp.sum(jnp.exp(factors - mean[None, :]), axis=1)
    spread = jnp.std(contributions, ddof=1) if replicas > 1 else jnp.asarray(jnp.inf, dtype)
    energy = tally.energy.T.reshape(-1)[:n]
    draws = Draws(
        jnp.swapaxes(tally.x, 0, 1).reshape(-1, dim)[:n],
        jnp.zeros_like(energy),
        jnp.sum(mean),
        spread / replicas**0.5,
        -energy,
        None,
        calls,
    )
    return draws, tally.acceptance / sweeps, tally.rejection / sweeps, jnp.sum(factors, axis=1)
