"""How large a target's domain is, learnt from the target alone by a few short tempered runs."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.baselines.ladder import Ladder, equal_distance
from temperflow.baselines.options import require_counts
from temperflow.baselines.tempered_smc import SmcInfo, tempered_smc
from temperflow.sampling.draws import Draws
from temperflow.targets.base import Target

# A tenth more mass or a tenth more width is not worth another doubling: neither moves a path's
# end by more than a tenth. Under twice its own error a rise is not seen as one.
LEAST_RISE = 0.1
ERRORS = 2.0
# The smallest rms there may be, so that its logarithm exists for a target that is one point.
TINY = 1e-30


class Survey(eqx.Module):
    r"""What `survey` found out about a target.

    Args:
        scale: $R$, root mean square of a coordinate about the origin.
        ladder: levels of $s$ from $N(0, R^2 I)$ to the target, at equal thermodynamic distance
            $\int \sqrt{\mathrm{Var}_{\pi_s}[V]}\,ds$, with a step for each: `ladder.s[k]` is the
            schedule of constant speed at $t = k/K$ (MATH.md section 1).
        log_evidence: $\log Z$ by the run from $N(0, R^2 I)$.
        log_evidence_error: its standard error.
        source_scales: the starts tried, each twice the one before.
        log_evidences: $\log Z$ from each of them.
        scales: root mean square of a coordinate from each of them.
        settled: whether the last two doublings brought nothing; if not, the domain may be larger.

    >>> import numpy as np
    >>> from temperflow.paths import Adapted
    >>> ladder = Ladder(jnp.array([0.0, 0.01, 0.1, 1.0]), jnp.ones((3, 2)))
    >>> zeros = jnp.zeros(3)
    >>> found = Survey(jnp.array(3.0), ladder, jnp.array(0.0), jnp.array(0.1), zeros, zeros, zeros, settled=True)
    >>> schedule = Adapted.of_levels(np.asarray(found.ladder.s))  # at constant thermodynamic speed
    >>> [round(float(schedule(jnp.array(k / 3))), 3) for k in range(4)]
    [0.0, 0.01, 0.1, 1.0]
    """

    scale: Float[Array, ""]
    ladder: Ladder
    log_evidence: Float[Array, ""]
    log_evidence_error: Float[Array, ""]
    source_scales: Float[Array, " runs"]
    log_evidences: Float[Array, " runs"]
    scales: Float[Array, " runs"]
    settled: bool = eqx.field(static=True)


def survey(
    key: PRNGKeyArray,
    target: Target,
    *,
    source_scale: float,
    particles: int = 512,
    islands: int = 2,
    most_doublings: int = 8,
) -> tuple[Survey, int]:
    r"""Find the scale of the domain, and count the energy evaluations it took.

    Tempered SMC runs from $N(0, (2^k\sigma)^2 I)$ for $k = 0, 1, 2, \dots$. A start too narrow
    leaves modes behind, which lowers both $\hat Z$ and the spread of the draws; so the starts
    double until two doublings in a row have raised neither $\log\hat Z$ nor, with $\log\hat Z$ kept,
    $\log$ rms by more than a tenth and twice the error. $R$ is the rms of those last three runs, averaged in
    proportion to their $\hat Z$. Nothing known about the target beside its energy is used.

    It is blind to a mode that a start four times `source_scale` does not find either: give a
    larger `source_scale` where the domain is known to be wider.

    Args:
        key: all the randomness.
        target: what to sample.
        source_scale: $\sigma$, the narrowest start.
        particles: particles of an island.
        islands: independent populations of a run.
        most_doublings: doublings after which to stop, settled or not.

    >>> target = Target(lambda x: -0.5 * jnp.sum(x**2) / 9.0, dim=2)
    >>> found, calls = survey(jax.random.key(0), target, source_scale=1.0, particles=128)
    >>> found.settled, bool(abs(found.scale - 3.0) < 0.5)
    (True, True)
    """
    require_counts(particles=(particles, 2), islands=(islands, 2), most_doublings=(most_doublings, 2))

    def run(index: int, scale: float) -> tuple[Draws, SmcInfo]:
        # Resampling at every level makes the effective share there the overlap of neighbours.
        return tempered_smc(
            jax.random.fold_in(key, index),
            target,
            particles=particles,
            islands=islands,
            moves=3,
            resample_below=1.0,
            source_scale=scale,
        )

    sightings, calls, settled = [], 0, False
    while not settled and len(sightings) <= most_doublings:
        draws, info = run(len(sightings), source_scale * 2.0 ** len(sightings))
        calls += draws.energy_calls
        sightings.append(_sight(draws, info))
        settled = len(sightings) > 2 and not any(_risen(sightings[-3], later) for later in sightings[-2:])

    evidence = jnp.stack([sighting.log_evidence for sighting in sightings])
    scales = jnp.exp(jnp.stack([sighting.log_scale for sighting in sightings]))
    say = jax.nn.softmax(evidence[-3:])
    scale = jnp.sqrt(jnp.sum(say * scales[-3:] ** 2))
    draws, info = run(len(sightings), float(scale))
    starts = source_scale * 2.0 ** jnp.arange(len(sightings), dtype=scale.dtype)
    found = Survey(
        scale,
        equal_distance(info.ladder, info.ess),
        draws.log_evidence,
        _sight(draws, info).evidence_error,
        starts,
        evidence,
        scales,
        settled,
    )
    return found, calls + draws.energy_calls


class _Sighting(eqx.Module):
    """What one run saw of the domain, with errors."""

    log_evidence: Float[Array, ""]
    evidence_error: Float[Array, ""]
    log_scale: Float[Array, ""]
    scale_error: Float[Array, ""]


def _sight(draws: Draws, info: SmcInfo) -> _Sighting:
    r"""Evidence and rms of a run that resampled at every level.

    Two islands are few to take a scatter from. The error is therefore never less than what
    perfectly mixing moves would leave: $\sum_k (1/ESS_k - 1)/N$ for $\log\hat Z$, and that of
    independent draws for the rms.
    """
    count = draws.log_weight.size
    ideal = jnp.sqrt(jnp.sum(1.0 / info.ess - 1.0) / count)
    square, square_error = draws.expect(lambda point: jnp.mean(point**2))
    square = jnp.maximum(square, TINY)
    islands = info.log_evidence.size
    by_island = jnp.mean(draws.x.reshape(islands, -1) ** 2, axis=1)
    scatter = jnp.std(by_island, ddof=1) / islands**0.5
    return _Sighting(
        draws.log_evidence,
        jnp.maximum(draws.log_evidence_error, ideal),
        0.5 * jnp.log(square),
        0.5 * jnp.maximum(square_error, scatter) / square,
    )


def _risen(earlier: _Sighting, later: _Sighting) -> bool:
    """Whether the later run saw more mass or, without losing mass, a wider domain."""
    mass = later.log_evidence - earlier.log_evidence
    mass_least = jnp.maximum(LEAST_RISE, ERRORS * jnp.hypot(earlier.evidence_error, later.evidence_error))
    width = later.log_scale - earlier.log_scale
    width_least = jnp.maximum(LEAST_RISE, ERRORS * jnp.hypot(earlier.scale_error, later.scale_error))
    # A start too wide leaves particles stranded far out: they widen the draws and miss the mass.
    return bool((mass > mass_least) | ((width > width_least) & (mass > -mass_least)))
