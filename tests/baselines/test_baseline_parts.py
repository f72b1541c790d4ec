"""Ladders, swaps, passports, resampling and refusals: the pieces the methods are made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from two_hills import two_hills

from temperflow.baselines import Ladder, annealed_importance, parallel_tempering, survey, tempered_smc
from temperflow.baselines.geometric import Point, geometric_path
from temperflow.baselines.ladder import equal_distance, equalise
from temperflow.baselines.population import next_level, resample_if
from temperflow.baselines.swaps import OUTBOUND, RETURNING, Passports, choose_swaps, swap_log_ratio
from temperflow.proposals.weights import log_mean_exp
from temperflow.targets import Target


@pytest.mark.parametrize("how", ["rejection", "distance"])
def test_levels_move_to_equal_shares_of_the_way(how):
    s = jnp.concatenate([jnp.zeros(1), jnp.geomspace(1e-4, 1.0, 12)])
    length = jnp.asarray(np.random.default_rng(0).uniform(0.05, 0.9, 12), jnp.float32)
    if how == "rejection":
        better = equalise(s, length)
    else:
        # Weights of log-variance l² have the effective share e^{-l²}.
        better = equal_distance(Ladder(s, jnp.ones((12, 1))), jnp.exp(-(length**2))).s
    assert float(better[0]) == 0.0
    assert float(better[-1]) == 1.0
    assert np.all(np.diff(better) > 0)

    # How far along the old levels the new ones are, in the coordinate in which barriers grow evenly.
    def coordinate(level):
        return np.where(level < s[1], level / s[1], 1 + np.log(np.maximum(level, s[1]) / s[1]))

    grown = np.concatenate([[0.0], np.cumsum(length)])
    share = np.interp(coordinate(np.asarray(better)), coordinate(np.asarray(s)), grown) / grown[-1]
    np.testing.assert_allclose(share, np.linspace(0, 1, 13), atol=2e-3)


def test_steps_are_carried_to_other_levels():
    steps = jnp.array([[4.0, 8.0], [2.0, 4.0], [1.0, 2.0]])
    finer = Ladder(jnp.array([0.0, 0.01, 0.1, 1.0]), steps).stretch(7)
    assert finer.step.shape == (6, 2)
    np.testing.assert_allclose(finer.step[:, 1], 2 * finer.step[:, 0], rtol=1e-5)
    assert np.all(np.diff(finer.step[:, 0]) <= 0)
    np.testing.assert_allclose(finer.step[-1], steps[-1], rtol=1e-5)
    np.testing.assert_allclose(finer.s[jnp.array([2, 4])], [0.01, 0.1], rtol=1e-3)


def test_the_swap_ratio_is_that_of_the_two_levels_densities():
    path, s = geometric_path(two_hills(), None), jnp.array([0.2, 0.9])
    low, high = (path.evaluate(jnp.array(x), with_gradient=False) for x in ([0.3, 1.0], [-1.0, 0.2]))
    stay = path.energy(s[0], low) + path.energy(s[1], high)
    trade = path.energy(s[0], high) + path.energy(s[1], low)
    potential = jnp.stack([path.potential(low), path.potential(high)])
    np.testing.assert_allclose(swap_log_ratio(s, potential)[0], stay - trade, rtol=1e-4)


def test_swaps_are_trades_between_neighbours_of_one_parity():
    s, potential = jnp.linspace(0, 1, 6), jnp.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])
    keys = jax.random.split(jax.random.key(0), 4000)
    for parity in (0, 1):
        chosen, probability = jax.vmap(lambda key, parity=parity: choose_swaps(key, s, potential, parity))(keys)
        chosen = np.asarray(chosen)
        assert np.all(np.sort(chosen, axis=1) == np.arange(6))
        swapped = chosen[:, :-1] == np.arange(1, 6)
        assert not swapped[:, 1 - parity :: 2].any()
        tried = slice(parity, None, 2)
        wanted = np.minimum(1, np.exp(0.2 * np.diff(potential)))
        np.testing.assert_allclose(probability[0], wanted, rtol=1e-5)
        # Binomial frequencies at 4.5 standard errors, five gaps: a false alarm in 30,000 seeds.
        error = np.sqrt(wanted * (1 - wanted) / 4000)
        assert np.all(np.abs(swapped.mean(0) - wanted)[tried] <= 4.5 * error[tried])


def test_a_point_outside_the_support_comes_down_and_never_goes_up():
    s, infinite = jnp.array([0.0, 1.0]), jnp.inf
    for potential, probability in (([0.0, infinite], 1.0), ([infinite, 0.0], 0.0), ([infinite, infinite], 0.0)):
        assert float(choose_swaps(jax.random.key(0), s, jnp.array(potential), 0)[1][0]) == probability


def test_passports_count_the_round_trips_that_a_traveller_would():
    rng, levels = np.random.default_rng(1), 4
    passports, after = Passports.blank(levels), jax.jit(Passports.after)
    where, state, trips = np.arange(levels), np.zeros(levels, int), 0
    for turn in range(200):
        chosen = np.arange(levels)
        for gap in range(turn % 2, levels - 1, 2):
            if rng.random() < 0.7:
                chosen[[gap, gap + 1]] = chosen[[gap + 1, gap]]
        passports = after(passports, jnp.asarray(chosen))
        where = where[chosen]  # the name of the traveller at each level
        if state[where[-1]] == OUTBOUND:
            state[where[-1]] = RETURNING
        trips += state[where[0]] == RETURNING
        state[where[0]] = OUTBOUND
    assert trips > 10
    assert int(passports.trips) == trips
    assert passports.stamp.tolist() == state[where].tolist()


@pytest.mark.parametrize("dead", [0, 60])
def test_the_next_level_has_the_overlap_asked_for(dead):
    rng = np.random.default_rng(2)
    potential = rng.normal(scale=40.0, size=(3, 200))
    potential[:, :dead] = np.inf
    log_weight = rng.normal(scale=0.3, size=(3, 200))
    level = next_level(
        jnp.asarray(0.1), jnp.asarray(log_weight, jnp.float32), jnp.asarray(potential, jnp.float32), jnp.asarray(0.6)
    )
    weight, factor = np.exp(log_weight), np.exp(-(float(level) - 0.1) * potential)
    share = (np.sum(weight * factor, 1) ** 2 / np.sum(weight * factor**2, 1) / np.sum(weight, 1)).mean()
    living = (np.sum(weight * np.isfinite(potential), 1) / np.sum(weight, 1)).mean()
    assert share == pytest.approx(0.6 * living, rel=0.02)


def test_the_next_level_is_the_last_where_nothing_changes():
    weight = jnp.zeros((2, 50))
    assert float(next_level(jnp.asarray(0.3), weight, jnp.full((2, 50), 7.0), jnp.asarray(0.7))) == 1.0


def test_resampling_keeps_the_evidence():
    log_weight = jnp.asarray(np.random.default_rng(3).normal(size=50), jnp.float32)
    points = jax.vmap(Point)(jnp.arange(50.0)[:, None], jnp.arange(50.0), jnp.zeros((50, 1)))
    for poor in (True, False):
        after, left, gained = resample_if(jax.random.key(0), points, log_weight, jnp.asarray(poor))
        np.testing.assert_allclose(gained + log_mean_exp(left), log_mean_exp(log_weight), rtol=1e-5)
        np.testing.assert_array_equal(after.x[:, 0], after.energy)
        assert (np.unique(after.energy).size < 50) == poor


@pytest.mark.parametrize(
    ("method", "options", "wrong"),
    [
        (annealed_importance, {"n": 1}, "n is 1"),
        (annealed_importance, {"steps": 0}, "steps is 0"),
        (annealed_importance, {"source_scale": -1.0}, "source_scale is -1.0"),
        (tempered_smc, {"particles": 1}, "particles is 1"),
        (tempered_smc, {"moves": True}, "moves is True"),
        (tempered_smc, {"overlap": 1.0}, "overlap is 1.0"),
        (tempered_smc, {"resample_below": -0.1}, "resample_below is -0.1"),
        (tempered_smc, {"ladder": Ladder(jnp.array([0.0, 0.5]), jnp.ones((1, 2)))}, "rising from 0 to 1"),
        (tempered_smc, {"ladder": Ladder(jnp.array([0.0, 0.5, 1.0]), jnp.ones((2, 3)))}, r"\(2, 2\)"),
        (tempered_smc, {"ladder": Ladder(jnp.array([0.0, 1.0]), jnp.zeros((1, 2)))}, "finite and positive"),
        (parallel_tempering, {"levels": 1}, "levels is 1"),
        (parallel_tempering, {"sweeps": True}, "sweeps is True"),
        (parallel_tempering, {"n": 100, "replicas": 2, "sweeps": 10}, "replicas x sweeps = 20"),
        (parallel_tempering, {"source_scale": float("inf")}, "source_scale is inf"),
        (survey, {"source_scale": 1.0, "islands": 1}, "islands is 1"),
        (survey, {"source_scale": 0.0}, "source_scale is 0.0"),
    ],
)
def test_bad_options_are_refused_before_any_call(method, options, wrong):
    def never(x):
        raise AssertionError("the target was called")

    target = Target(never, dim=2)
    with pytest.raises(ValueError, match=wrong):
        method(jax.random.key(0), target, **options)
