"""The residual vanishes where μ and F are exact, at every time and temperature, and only there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact_gaussian
from temperflow.models import Divergence, ExactDivergence
from temperflow.paths import Cached, Continuum, Exponential, Identity, SmoothStep, Widening
from temperflow.training import Location, residuals

# A residual is a difference of terms of order ten in float32; it is 1e-5 of the largest of them.
TOLERANCE = 1e-5
COUNT = 256


def gaussian_paths():
    """Plain, widening, and with a learned potential on top of either."""
    return {
        "linear": exact_gaussian.gaussian_path(2, 1.0, Identity()),
        "shifted-source": exact_gaussian.gaussian_path(3, 2.0, Exponential(rate=2.0)),
        "widening": exact_gaussian.gaussian_path(2, 1.0, Identity(), Widening(2.0, SmoothStep(0.7))),
        "learned": exact_gaussian.gaussian_path(2, 1.0, SmoothStep(1.0), stiffness=0.7),
        "learned-widening": exact_gaussian.gaussian_path(
            3, 1.0, Identity(), Widening(3.0, SmoothStep(0.5)), stiffness=0.5
        ),
    }


PATHS = gaussian_paths()


def locations(path, count=COUNT):
    """Anywhere on the path, its ends included, at any β in [0.1, 1]; the cached pair and nothing else of the target."""
    for_t, for_x, for_beta = jax.random.split(jax.random.key(5), 3)
    t = jax.random.uniform(for_t, (count,), minval=0.0, maxval=1.0)
    t = t.at[:8].set(0.0).at[8:16].set(1.0)  # where every rollout has a slice, and where clips have their corners
    beta = jax.random.uniform(for_beta, (count,), minval=0.1, maxval=1.0)
    x = 2.0 * jax.random.normal(for_x, (count, path.continuum.dim))
    cached = Cached(*jax.vmap(path.target.energy_and_grad)(x))
    return Location(t, x, beta, cached, jnp.ones(count), jnp.ones(count, bool))


def largest(path, model=None, continuum=None, divergence=None, change=lambda places: places):
    """The largest residual, as a share of the largest term it is made of."""
    model = exact_gaussian.exact_model(path) if model is None else model
    continuum = path.continuum if continuum is None else continuum
    divergence = ExactDivergence() if divergence is None else divergence
    places = change(locations(path))

    @eqx.filter_jit
    def evaluate(model, places):
        key = jax.random.key(0)

        def one(place):
            rate = jax.grad(model.free_energy)(place.t, place.beta)
            return residuals(key, model, place, continuum, divergence), rate

        return jax.vmap(one)(places)

    values, rates = evaluate(model, places)
    np.testing.assert_array_equal(values[:, 0], values[:, 1])  # an exact divergence has one value
    return float(jnp.max(jnp.abs(values)) / (1.0 + jnp.max(jnp.abs(rates))))


@pytest.mark.parametrize("name", PATHS)
def test_residual_vanishes_for_the_exact_transport(name):
    assert largest(PATHS[name]) < TOLERANCE


class FlippedDivergence(Divergence):
    def __call__(self, key, field, x):
        value, twice = ExactDivergence()(key, field, x)
        return value, -twice


class ColdContinuum(Continuum):
    """The factor β of Ū left out; the source's constant keeps its β."""

    def energy(self, t, beta, x, cached, potential=None):
        constant = 0.5 * self.dim * (jnp.log(2.0 * jnp.pi / beta) + self.log_source_variance(t))
        constant = (1.0 - self.schedule(t)) * constant
        return (super().energy(t, beta, x, cached, potential) - constant) / beta + constant


class FrozenFreeEnergy(exact_gaussian.ExactFreeEnergy):
    def __call__(self, t, beta):
        return self.path.free_energy(jax.lax.stop_gradient(t), beta)


class HotFreeEnergy(exact_gaussian.ExactFreeEnergy):
    """F at temperature one, whatever the temperature."""

    def __call__(self, t, beta):
        return self.path.free_energy(t, jnp.ones_like(beta))


def cold_continuum(path):
    parts = path.continuum
    return ColdContinuum(parts.dim, parts.source_scale, parts.schedule, parts.widening)


def without_the_cached_gradient(places):
    return eqx.tree_at(lambda p: p.cached.gradient, places, jnp.zeros_like(places.x))


def mutants(path):
    model = exact_gaussian.exact_model(path)

    def with_free_energy(kind):
        return eqx.tree_at(lambda m: m.free_energy, model, kind(path=path))

    return {
        "sign of the divergence": {"divergence": FlippedDivergence()},
        "no rate of the free energy": {"model": with_free_energy(FrozenFreeEnergy)},
        "free energy of another temperature": {"model": with_free_energy(HotFreeEnergy)},
        "no factor beta": {"continuum": cold_continuum(path)},
        "no target gradient": {"change": without_the_cached_gradient},
        "sign of the control": {"model": exact_gaussian.exact_model(path, speed=-1.0)},
        "no learned potential": {"model": eqx.tree_at(lambda m: m.potential, model, None)},
    }


@pytest.mark.parametrize("name", mutants(PATHS["learned-widening"]))
def test_residual_does_not_vanish_for_a_mutant(name):
    path = PATHS["learned-widening"]
    assert largest(path, **mutants(path)[name]) > 1000 * TOLERANCE
