"""The confinement: exact draws, exact integrals, at any bias (MATH.md sections 3 and 4)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import exact_gaussian
from temperflow.paths import Confinement

KNOTS = 5
BIASES = {"flat": [0.0] * KNOTS, "hilly": [0.0, 1.5, -1.0, 0.7, -2.0], "steep": [0.0, 40.0, 80.0, 40.0, 0.0]}


def walls(bias, edge=2.0, sharpness=4.0):
    return Confinement(edge=edge, sharpness=sharpness, bias=jnp.asarray(bias, jnp.float32))


def cumulative(confinement):
    xi, log_density = exact_gaussian.confinement_density(confinement)
    density = np.exp(log_density - log_density.max())
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)])
    return lambda at: np.interp(at, xi, below / below[-1])


draw = eqx.filter_jit(lambda confinement, keys: jax.vmap(confinement.sample)(keys))


@pytest.mark.parametrize("name", BIASES)
def test_draws_follow_the_density_and_not_a_neighbouring_one(name):
    """Kolmogorov-Smirnov at 20 000 draws; a false alarm in one of 1000 seeds each."""
    confinement = walls(BIASES[name])
    draws = np.asarray(draw(confinement, jax.random.split(jax.random.key(2), 20_000)))
    assert scipy.stats.kstest(draws, cumulative(confinement)).pvalue > 1e-3
    tilted = walls(0.8 * np.asarray(BIASES[name]) + np.linspace(0.0, 0.4, KNOTS))
    softer = walls(BIASES[name], sharpness=1.0)
    assert scipy.stats.kstest(draws, cumulative(tilted)).pvalue < 1e-6
    if name == "flat":
        assert scipy.stats.kstest(draws, cumulative(softer)).pvalue < 1e-6


@jax.jit
def integrals(bias):
    confinement = walls(bias)
    return confinement.log_normaliser(), confinement.log_mass(0.5), confinement.log_mass(1.5), confinement.log_mass(2.0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(bias=st.lists(st.floats(-200.0, 200.0, width=32), min_size=KNOTS, max_size=KNOTS))
def test_its_integrals_agree_with_quadrature(bias):
    confinement = walls(bias)
    # Knots and limits lie on the grid, so that the trapezoid meets no kink.
    xi, log_density = exact_gaussian.confinement_density(confinement, count=96_001, reach=4.0)
    step = xi[1] - xi[0]

    def log_integral(limit):
        kept = np.abs(xi) <= limit + 1e-9
        density = np.exp(log_density[kept] - log_density[kept].max())
        return np.log(np.trapezoid(density, dx=step)) + log_density[kept].max()

    for value, limit in zip(integrals(jnp.asarray(bias, jnp.float32)), (6.0, 0.5, 1.5, 2.0), strict=True):
        assert float(value) == pytest.approx(log_integral(limit), abs=2e-3, rel=1e-5)


def test_the_value_is_the_formula_inside_and_outside():
    confinement = walls(BIASES["hilly"])
    xi, expected = exact_gaussian.confinement_density(confinement, count=301, reach=1.0)
    np.testing.assert_allclose(jax.vmap(confinement)(jnp.asarray(xi, jnp.float32)), expected, atol=2e-5)


@pytest.mark.parametrize("arguments", [(0.0, 1.0, [0.0, 0.0]), (1.0, -1.0, [0.0, 0.0]), (1.0, 1.0, [0.0])])
def test_impossible_arguments_are_refused_with_what_was_got(arguments):
    edge, sharpness, bias = arguments
    with pytest.raises(ValueError, match="got"):
        walls(bias, edge, sharpness)


@pytest.mark.parametrize("limit", [0.0, 2.1])
def test_a_mass_is_only_asked_for_within_the_walls(limit):
    with pytest.raises(ValueError, match="limit"):
        walls(BIASES["flat"]).log_mass(limit)
