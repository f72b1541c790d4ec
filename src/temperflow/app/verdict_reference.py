"""What classical samplers find in the target: witnesses that know nothing of the sampler on trial."""

from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from temperflow.baselines import Ladder, parallel_tempering, survey, tempered_smc
from temperflow.sampling import Draws
from temperflow.targets import Target

# Particles and islands of tempered SMC; draws of each witness that are asked for the flow's density.
PARTICLES, ISLANDS, ASKED = 256, 16, 1024
# The witnesses start wider than the domain that was found: what they see must not depend on that find.
WIDER = 1.5
# Replicas of parallel tempering and sweeps of its last round; those before it are as many again.
REPLICAS, SWEEPS = 16, 512
# Its levels come in such steps: SMC's own number, which is due, would be a new program each time.
RUNGS = 8


@dataclass(frozen=True)
class LogZ:
    """An estimate of log Z and its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class Witness:
    """One classical run: what it drew and what it says of log Z.

    Args:
        x: equally weighted draws.
        log_density: the target's, at them.
        log_evidence: log Z.
        energy_calls: what it cost.
    """

    x: NDArray[np.float32]
    log_density: NDArray[np.float64]
    log_evidence: LogZ
    energy_calls: int


@dataclass(frozen=True)
class Reference:
    """What two classical runs from a wide start say of the target.

    Tempered SMC is the better judge of many modes: at equal cost its mode weights and log Z are
    the sharper, and 4096 independent particles land in each broad mode. But it passes each
    temperature once. A mode that is narrow for its mass is a speck while the temperature is high,
    and a run that has left it behind cannot return. Parallel tempering can: its swaps go on
    bringing fresh places down, so that it stumbles on such modes where SMC did not, and the
    other way round, about as often. Neither sees a needle in a haystack, nor what lies beyond the wide start.

    Args:
        annealed: tempered SMC.
        swapped: a short run of parallel tempering, from the same start, on SMC's ladder.
        round_trips: journeys that ended in it. Where they are fewer than the replicas it has not
            forgotten its start, and is not heard.
        scale: root mean square of a coordinate.
        settled: whether wider starts had stopped finding more.
        energy_calls: what all of it cost, the survey of the domain included.
    """

    annealed: Witness
    swapped: Witness
    round_trips: int
    scale: float
    settled: bool
    energy_calls: int


def look_around(target: Target, source_scale: float, seed: int = 0) -> Reference:
    """Survey the domain from `source_scale` on, then run both witnesses from beyond it.

    Args:
        target: the target, of which nothing but its energy is used.
        source_scale: the narrowest start.
        seed: of all randomness.
    """
    key = jax.random.fold_in(jax.random.key(seed), 1)
    found, calls = survey(key, target, source_scale=source_scale, particles=PARTICLES, islands=ISLANDS)
    wide = WIDER * float(found.scale)
    draws, info = tempered_smc(
        jax.random.fold_in(key, 2), target, particles=PARTICLES, islands=ISLANDS, moves=3, resample_below=1.0,
        source_scale=wide,
    )  # fmt: skip
    annealed = _witness(draws.resample(ASKED, seed), draws.energy_calls)
    chains, journeys = parallel_tempering(
        jax.random.fold_in(key, 3), target, n=ASKED, replicas=REPLICAS, sweeps=SWEEPS,
        ladder=_rounded(info.ladder), source_scale=wide,
    )  # fmt: skip
    swapped = _witness(chains, chains.energy_calls)
    calls += annealed.energy_calls + swapped.energy_calls
    return Reference(annealed, swapped, journeys.round_trips, float(found.scale), found.settled, calls)


def log_z(draws: Draws) -> LogZ:
    """Their evidence, in plain numbers."""
    return LogZ(float(draws.log_evidence), float(draws.log_evidence_error))


def _rounded(ladder: Ladder) -> Ladder:
    return ladder.stretch(-(-ladder.s.size // RUNGS) * RUNGS)


def _witness(even: Draws, calls: int) -> Witness:
    return Witness(np.asarray(even.x), np.asarray(even.log_density, np.float64), log_z(even), calls)
