"""The continuum: its formula, its constant, and that it sees the target only through the cached pair (MATH.md 1)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact_gaussian
from temperflow.paths import Adapted, Cached, Continuum, Exponential, Identity, SmoothStep, Widening

WIDENING = Widening(scale=3.0, schedule=SmoothStep(end=0.5))


PATHS = [
    exact_gaussian.gaussian_path(2, 1.5, Exponential(rate=3.0), widening, stiffness)
    for widening, stiffness in ((None, 0.0), (None, 0.9), (WIDENING, 0.0), (WIDENING, 0.9))
]


def energy_of(path):
    model = exact_gaussian.exact_model(path)

    def energy(t, beta, x):
        cached = Cached(*path.target.energy_and_grad(x))
        return path.continuum.energy(t, beta, x, cached, model.potential)

    return eqx.filter_jit(energy)


@pytest.mark.parametrize("path", PATHS)
def test_it_is_the_formula_written_out_in_double_precision(path):
    energy, rng = energy_of(path), np.random.default_rng(0)
    for t, beta in ((0.0, 0.3), (0.4, 1.0), (0.8, 0.2), (1.0, 0.5)):
        x = rng.normal(size=2)
        s = np.expm1(3.0 * t) / np.expm1(3.0)
        w = min(t / 0.5, 1.0) ** 2 * (3.0 - 2.0 * min(t / 0.5, 1.0))
        variance = 1.5**2 if path.continuum.widening is None else 1.5 ** (2 - 2 * w) * 3.0 ** (2 * w)
        target = -float(path.log_density(jnp.asarray(x, jnp.float32)))
        cold = (1 - s) * x @ x / (2 * variance) + s * target + t * (1 - t) * 0.5 * path.stiffness * x @ x
        expected = beta * cold + (1 - s) * np.log(2 * np.pi * variance / beta)
        value = energy(*(jnp.asarray(v, jnp.float32) for v in (t, beta, x)))
        assert float(value) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("fading", [1.0, 1.5, 40.0])
@pytest.mark.parametrize("schedule", [Identity(), Exponential(rate=3.0), Adapted.of_levels(np.array([0.0, 0.1, 1.0]))])
def test_its_rate_in_time_holds_up_to_the_very_end(schedule, fading):
    """A slice of every rollout stands at t = 1, where whatever clips the envelope has its corner."""
    continuum, x, one = Continuum(2, 1.5, schedule, fading=fading), jnp.array([3.0, -4.0]), jnp.array(1.0)
    cached = Cached(jnp.array(2.0), jnp.zeros(2))

    def rate(t, beta):
        return float(jax.jvp(lambda t: continuum.energy(t, beta, x, cached), (t,), (one,))[1])

    for beta in (jnp.array(0.3), one):
        speed = float(jax.grad(schedule)(one))
        source = float(beta) * 25.0 / (2 * 1.5**2) + np.log(2 * np.pi * 1.5**2 / float(beta))
        expected = speed * (float(beta) * 2.0 - (source if fading == 1.0 else 0.0))
        assert rate(one, beta) == pytest.approx(expected, rel=1e-5)
        # From the left, which no corner touches. What fades as a power of 1/2 is half way down to 1e-3 there.
        if fading != 1.5:
            assert rate(one - 1e-6, beta) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("beta", [0.2, 1.0])
@pytest.mark.parametrize("path", PATHS)
def test_its_free_energy_is_the_integral_over_x_and_the_source_is_normalised(path, beta):
    side = np.linspace(-25.0, 25.0, 301)
    points = jnp.asarray(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2), jnp.float32)
    energy = jax.jit(jax.vmap(energy_of(path), in_axes=(None, None, 0)))
    for t in (0.0, 0.35, 1.0):
        time, b = jnp.asarray(t, jnp.float32), jnp.asarray(beta, jnp.float32)
        values = np.asarray(energy(time, b, points), np.float64)
        integral = np.log(np.sum(np.exp(-values)) * (side[1] - side[0]) ** 2)
        assert -integral == pytest.approx(float(path.free_energy(time, b)), abs=2e-4)
        if t == 0.0:
            assert integral == pytest.approx(0.0, abs=2e-4)


def test_gradients_in_x_come_from_the_cached_pair_and_the_target_is_called_once():
    path, calls = exact_gaussian.gaussian_path(2, 1.5, Exponential(rate=3.0)), []

    def counted(x):
        calls.append(1)
        return path.log_density(x)

    target = eqx.tree_at(lambda target: target.log_density, path.target, counted)
    x, t, beta = jnp.array([0.3, -1.2]), jnp.array(0.4), jnp.array(0.6)
    cached = Cached(*target.energy_and_grad(x))
    gradient = jax.grad(path.continuum.energy, argnums=2)(t, beta, x, cached)
    assert len(calls) == 1
    s = path.continuum.schedule(t)
    expected = beta * ((1.0 - s) * x / 1.5**2 - s * jax.grad(path.log_density)(x))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_the_source_of_a_flow_is_the_path_at_nought():
    path = exact_gaussian.gaussian_path(2, 1.5, Exponential(rate=3.0), WIDENING)
    x, nought, one = jnp.array([0.7, -0.2]), jnp.array(0.0), jnp.array(1.0)
    assert float(path.continuum.log_source(x)) == pytest.approx(-float(energy_of(path)(nought, one, x)), rel=1e-5)
