"""The verdict on a sampler: how far, how tight, how many modes, each with its error and its floor."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from temperflow.diagnostics.bounds import Estimate, elbo, eubo, forward_ess, reverse_ess
from temperflow.diagnostics.coverage import Coverage, coverage, coverage_floor
from temperflow.diagnostics.rounds import FlowSampler, Rounds, play
from temperflow.diagnostics.wasserstein import mean_and_spread, w2
from temperflow.sampling.pareto import pareto_khat
from temperflow.targets.base import Target

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Metrics:
    r"""What `evaluate` measured (MATH.md section 6). Spreads are standard deviations over trials.

    None stands where the target does not know the truth a figure needs: without exact draws the
    w2, EUBO and forward ESS; without listed modes the coverage; without $\log Z$ its known value.

    Args:
        w2: mean exact 2-Wasserstein distance between unweighted flow draws and exact draws.
        w2_floor: the same between two exact samples of the same size: what perfection scores.
        elbo: $E_q\log w \le \log Z$ with its standard error, all trials pooled.
        eubo: $E_{\pi_1}\log w \ge \log Z$ likewise, at exact draws; a missed mode shows here.
        ess: effective size of the pooled weights as a share of one; blind to missed modes.
        ess_forward: the same share seen from exact draws; not blind.
        modes: mean number of modes that hold a draw in a trial.
        modes_worst: the fewest in any trial.
        mode_tv: mean total variation between the draws' mode shares and the target's.
        mode_tv_floor: the same for exact draws.
        entropic: mean entropic coverage, 1 for equal shares of all modes.
        log_evidence: $\log$ of the mean pooled weight, and its delta-method standard error.
        log_evidence_known: the target's own value, to compare with.
        free_energy: the sampler's learned $F(1, 1)$, an estimate of $-\log Z$.
        khat: Pareto shape of the pooled weights; above 0.7 distrust the weighted averages.
        energy_calls: target evaluations that the draws cost, all trials together.
        n: draws in a trial.
        trials: how many trials.

    >>> import numpy as np
    >>> rounds = Rounds(np.zeros((2, 50, 1)), np.full((2, 50), 1.5), None, None, None, -1.4, energy_calls=100)
    >>> found = summarise(rounds, Target(lambda x: -(x[0] ** 2), dim=1))
    >>> found.elbo, found.log_evidence, found.ess  # equal weights: the bound is tight
    (1.5, 1.5, 1.0)
    >>> found.w2 is None, found.to_dict()["trials"]  # no exact draws, no distance
    (True, 2)
    """

    w2: float | None
    w2_spread: float | None
    w2_floor: float | None
    w2_floor_spread: float | None
    elbo: float
    elbo_error: float
    eubo: float | None
    eubo_error: float | None
    ess: float
    ess_error: float
    ess_forward: float | None
    ess_forward_error: float | None
    modes: float | None
    modes_worst: int | None
    mode_tv: float | None
    mode_tv_spread: float | None
    mode_tv_floor: float | None
    entropic: float | None
    log_evidence: float
    log_evidence_error: float
    log_evidence_known: float | None
    free_energy: float
    khat: float
    energy_calls: int
    n: int
    trials: int

    def to_dict(self) -> dict[str, float | int | None]:
        """The fields by name, plain numbers and None. Some may be infinite, which JSON cannot say."""
        return asdict(self)


def evaluate(sampler: FlowSampler, target: Target, n: int = 2500, trials: int = 10, seed: int = 0) -> Metrics:
    """Compare a sampler's flow draws with what is known of the target.

    Every trial draws afresh on both sides, and the floors come from the same exact draws. A draw
    whose weight is not a number counts as weightless, and an exact draw whose density is not a
    number as one the sampler cannot reach, so a numerical failure loosens a bound and never
    tightens it. Most of the time goes into two exact assignments a trial, seconds at n = 2500.

    Args:
        sampler: draws and the density of the map that made them.
        target: what it should sample.
        n: draws in a trial, at least 2.
        trials: how many, at least 1; the spreads of a single one are not a number.
        seed: of all the randomness, exact draws included.
    """
    return summarise(play(sampler, target, n, trials, seed), target, seed)


def summarise(rounds: Rounds, target: Target, seed: int = 0) -> Metrics:
    """The figures of rounds that have been played; no sampler and no accelerator needed.

    Args:
        rounds: what `play` returned.
        target: for what is known of it.
        seed: of the coverage's floor.
    """
    log_weight = rounds.log_weight.ravel()
    below, efficiency, evidence = elbo(log_weight), reverse_ess(log_weight), _log_evidence(log_weight)
    return Metrics(
        elbo=below.value,
        elbo_error=below.error,
        ess=efficiency.value,
        ess_error=efficiency.error,
        log_evidence=evidence.value,
        log_evidence_error=evidence.error,
        log_evidence_known=target.log_evidence,
        free_energy=rounds.free_energy,
        khat=pareto_khat(log_weight),
        energy_calls=rounds.energy_calls,
        n=rounds.n,
        trials=rounds.trials,
        **_against_exact_draws(rounds),
        **_against_modes(rounds, target, seed),
    )


def _against_exact_draws(rounds: Rounds) -> dict[str, float | None]:
    """What needs `Target.sample`: distance, its floor, the upper bound and the forward ESS."""
    names = ("w2", "w2_spread", "w2_floor", "w2_floor_spread", "eubo", "eubo_error", "ess_forward", "ess_forward_error")
    if rounds.exact_log_weight is None:
        return dict.fromkeys(names)
    distances = [w2(x, exact) for x, _, exact, _, _ in rounds.each()]
    floors = [w2(other, exact) for _, _, exact, other, _ in rounds.each()]
    log_weight = rounds.exact_log_weight.ravel()
    above, efficiency = eubo(log_weight), forward_ess(log_weight)
    values = (*mean_and_spread(distances), *mean_and_spread(floors))
    return dict(
        zip(names, (*values, above.value, above.error, efficiency.value, efficiency.error), strict=True),
    )


def _against_modes(rounds: Rounds, target: Target, seed: int) -> dict:
    """What needs `Target.modes`: which the draws hold and in what proportion."""
    if target.modes is None:
        return dict.fromkeys(("modes", "modes_worst", "mode_tv", "mode_tv_spread", "mode_tv_floor", "entropic"))
    trials: list[Coverage] = [coverage(target.modes, found) for found in rounds.x]
    floor, _ = coverage_floor(target.modes, rounds.n, seed=seed)
    variation, variation_spread = mean_and_spread([each.mode_tv for each in trials])
    return {
        "modes": float(np.mean([each.modes for each in trials])),
        "modes_worst": int(min(each.modes for each in trials)),
        "mode_tv": variation,
        "mode_tv_spread": variation_spread,
        "mode_tv_floor": floor.mode_tv,
        "entropic": float(np.mean([each.entropic for each in trials])),
    }


def _log_evidence(log_weight: Rows) -> Estimate:
    """log of the mean weight in float64, with the delta method's standard error."""
    largest = log_weight.max()
    if not np.isfinite(largest):
        return Estimate(float(largest), np.inf)
    weight = np.exp(log_weight - largest)
    mean = weight.mean()
    error = np.std(weight, ddof=1) / (mean * np.sqrt(weight.size))
    return Estimate(float(largest + np.log(mean)), float(error))
