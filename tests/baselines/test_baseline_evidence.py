"""E[Z-hat] = Z on a fixed ladder, and estimators spoilt in one place that the same test must reject.

Seeds are fixed and the threshold is 4 standard errors: a false alarm in 16,000 seeds a test. The
mutants miss by ten and more.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
from two_hills import CENTRES, LOG_EVIDENCE, SHARES, WIDTHS, ladder, mean_and_error, two_hills

from temperflow.baselines import RandomWalk, annealed_importance, parallel_tempering, swaps, tempered_smc


def module(name):
    """The module, not the function of the same name that the package exports."""
    return importlib.import_module(f"temperflow.baselines.{name}")


def missed_by(ratios):
    """Standard errors between the mean of independent Z-hat / Z and one."""
    mean, error = mean_and_error(ratios)
    return abs(mean - 1) / error


def annealed():
    draws, _ = annealed_importance(jax.random.key(0), two_hills(), n=20_000, ladder=ladder(), move=RandomWalk())
    return draws


def test_annealed_importance_weights_have_mean_z(monkeypatch):
    draws = annealed()
    assert missed_by(np.exp(draws.log_weight - LOG_EVIDENCE)) < 4
    assert abs(draws.log_evidence - LOG_EVIDENCE) < 4 * draws.log_evidence_error
    assert abs(weighted_left(draws) - SHARES[0]) < 0.03
    increment = module("annealed_importance").log_increment
    monkeypatch.setattr(module("annealed_importance"), "log_increment", lambda gap, v: 0.5 * increment(gap, v))
    assert missed_by(np.exp(annealed().log_weight - LOG_EVIDENCE)) > 40
    # With the wrong sign a single weight holds everything, and the mean's own error is of no use.
    monkeypatch.setattr(module("annealed_importance"), "log_increment", lambda gap, v: -increment(gap, v))
    wrong = annealed()
    assert abs(wrong.log_evidence - LOG_EVIDENCE) > 40 * wrong.log_evidence_error
    assert abs(weighted_left(wrong) - SHARES[0]) > 0.3


def weighted_left(draws):
    weight = np.exp(np.asarray(draws.log_weight, np.float64))
    return np.sum(weight[np.asarray(draws.x)[:, 0] < 0.2]) / np.sum(weight)


def islands():
    """Many tiny populations: an error of order 1/particles, if there were one, would stand out."""
    _, info = tempered_smc(
        jax.random.key(1), two_hills(), particles=8, islands=2000, moves=1, ladder=ladder(), move=RandomWalk()
    )
    return info


def test_every_tiny_population_of_tempered_smc_is_unbiased(monkeypatch):
    info = islands()
    assert 0.1 < np.mean(info.resampled) < 1
    assert missed_by(np.exp(info.log_evidence - LOG_EVIDENCE)) < 4

    def forgetful(key, points, log_weight, poor):
        points, log_weight, gained = keeps(key, points, log_weight, poor)
        return points, log_weight, jnp.zeros_like(gained)

    keeps = module("tempered_smc").resample_if
    monkeypatch.setattr(module("tempered_smc"), "resample_if", forgetful)
    assert missed_by(np.exp(islands().log_evidence - LOG_EVIDENCE)) > 4


REPLICAS = 64


def tempered():
    return parallel_tempering(
        jax.random.key(2), two_hills(), n=64 * REPLICAS, replicas=REPLICAS, sweeps=256, ladder=ladder(),
        move=RandomWalk(),
    )  # fmt: skip


def evidence_missed_by(draws):
    return abs(float(draws.log_evidence) - LOG_EVIDENCE) / float(draws.log_evidence_error)


def moments_missed_by(draws):
    """The largest z of first and second moments and of a hill's share; each replica is one value."""
    known_mean = SHARES @ CENTRES
    known_square = SHARES @ (CENTRES**2 + WIDTHS[:, None] ** 2)
    x = np.asarray(draws.x, np.float64).reshape(-1, REPLICAS, 2)
    values = np.concatenate([x.mean(0) - known_mean, (x**2).mean(0) - known_square], axis=1)
    return max(abs(mean) / error for mean, error in map(mean_and_error, values.T))


def test_parallel_tempering_finds_evidence_and_law(monkeypatch):
    draws, info = tempered()
    assert evidence_missed_by(draws) < 4
    assert moments_missed_by(draws) < 4.5  # the largest of four
    assert float(draws.log_evidence_error) < 0.05
    assert info.round_trips > REPLICAS
    np.testing.assert_array_equal(info.ladder.s, ladder().s)
    np.testing.assert_array_equal(info.ladder.step, ladder().step)
    # The error that is stated is the scatter there is: replicas alone, by their own estimates.
    scatter = np.std(info.log_evidence, ddof=1) / np.sqrt(REPLICAS)
    assert 0.6 < scatter / draws.log_evidence_error < 1.6

    with monkeypatch.context() as patch:
        patch.setattr(module("parallel_tempering"), "stone", lambda gap, potential: gap * potential)
        assert evidence_missed_by(tempered()[0]) > 4
    with monkeypatch.context() as patch:
        patch.setattr(swaps, "swap_log_ratio", lambda s, potential: jnp.zeros_like(jnp.diff(potential)))
        draws, _ = tempered()
        assert evidence_missed_by(draws) > 4
        assert moments_missed_by(draws) > 4.5
