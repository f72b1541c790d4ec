"""Densities and gradients against an independent transcription, near and far."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_densities as reference

from temperflow import targets


@pytest.mark.parametrize("name", sorted(reference.LOG_DENSITIES))
def test_density_and_gradient_match_an_independent_transcription(name):
    target, known = targets.get(name), reference.LOG_DENSITIES[name]
    width = 30.0 if name.startswith("gmm40") else 2.0
    points = width * np.random.default_rng(5).normal(size=(4, target.dim))
    energy_and_grad = jax.jit(lambda x: target.energy_and_grad(x))
    for x in points.astype(np.float32):
        energy, slope = energy_and_grad(jnp.asarray(x))
        x = x.astype(np.float64)
        np.testing.assert_allclose(energy, -known(x), rtol=2e-4, atol=2e-4)
        wanted = -reference.gradient(known, x)
        np.testing.assert_allclose(slope, wanted, rtol=2e-3, atol=1e-3 * (1 + np.abs(wanted).max()))


@pytest.mark.parametrize("name", sorted(reference.LOG_DENSITIES))
def test_gradients_stay_finite_far_away_and_point_home(name):
    target = targets.get(name)
    # All coordinates positive: down its neck the funnel's own density overflows float32.
    x = jnp.array([[1e2], [1e4]]) * jnp.ones((1, target.dim))
    energy, slope = jax.jit(jax.vmap(lambda x: target.energy_and_grad(x)))(x)
    assert np.all(np.isfinite(energy))
    assert np.all(np.isfinite(slope))
    assert np.all(np.sum(x * slope, axis=1) > 0)


def test_the_funnel_is_finite_deep_down_its_neck():
    x = jnp.zeros(10).at[0].set(-1e4)
    energy, slope = targets.get("funnel").energy_and_grad(x)
    assert np.isfinite(energy)
    assert np.all(np.isfinite(slope))


def test_the_energy_is_minus_the_log_density_and_comes_alone_too():
    target = targets.Target(lambda x: 3.0 - jnp.sum(x**4), dim=2)
    x = jnp.array([1.0, 2.0])
    assert float(target.energy(x)) == 14.0
    assert float(target.energy_and_grad(x)[0]) == 14.0
    assert target.log_evidence is None
    assert target.sample is None


def test_one_call_of_the_density_serves_energy_and_gradient():
    traces = []

    def log_density(x):
        traces.append(x)
        return -jnp.sum(x**2)

    jax.make_jaxpr(targets.Target(log_density, dim=3).energy_and_grad)(jnp.ones(3))
    assert len(traces) == 1


def test_a_draw_belongs_to_the_nearest_centre():
    modes = targets.Modes(jnp.array([[0.0, 0.0], [4.0, 0.0]]), jnp.array([0.5, 0.5]))
    assert modes.assign(jnp.array([[1.9, 3.0], [2.1, -3.0]])).tolist() == [0, 1]
