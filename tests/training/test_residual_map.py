"""The residual by cells: zero where the model is exact, and found in the cells where it is not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import exact_gaussian
from temperflow.models import ExactDivergence, Model
from temperflow.paths import Cached, SmoothStep
from temperflow.training import Location
from temperflow.training.residual_map import residual_map

T_EDGES = jnp.linspace(0.0, 1.0, 5)
BETA_EDGES = jnp.array([0.1, 0.4, 0.7, 1.0])
PATH = exact_gaussian.gaussian_path(2, 1.0, SmoothStep(1.0))


class LateError(exact_gaussian.ExactFreeEnergy):
    """F that is wrong by 3 (t - 1/2)_+ (β - 0.7)_+ / 0.3: late and cold only."""

    def __call__(self, t, beta):
        wrong = 3.0 * jnp.maximum(t - 0.5, 0.0) * jnp.maximum(beta - 0.7, 0.0) / 0.3
        return self.path.free_energy(t, beta) + wrong


def locations(count=600):
    for_t, for_x, for_beta = jax.random.split(jax.random.key(3), 3)
    t = jax.random.uniform(for_t, (count,))
    beta = jax.random.uniform(for_beta, (count,), minval=0.1, maxval=1.0)
    x = jax.random.normal(for_x, (count, 2))
    valid = jnp.arange(count) % 10 != 0
    return Location(t, x, beta, Cached(*jax.vmap(PATH.target.energy_and_grad)(x)), jnp.ones(count), valid)


def mapped(model):
    arguments = (locations(), PATH.continuum, ExactDivergence(), T_EDGES, BETA_EDGES)
    return eqx.filter_jit(residual_map)(jax.random.key(0), model, *arguments)


def test_zero_where_exact_and_invalid_locations_do_not_count():
    cells = mapped(exact_gaussian.exact_model(PATH))
    assert float(jnp.max(cells.rms)) < 1e-3
    assert int(jnp.sum(cells.count)) == 540


def test_an_error_shows_in_its_own_cells_at_its_own_size():
    exact = exact_gaussian.exact_model(PATH)
    cells = mapped(Model(exact.control, LateError(path=PATH), None))
    places = locations()
    late = np.asarray(places.valid & (places.t >= 0.75) & (places.beta >= 0.7))
    expected = np.sqrt(np.mean((10.0 * (np.asarray(places.beta)[late] - 0.7)) ** 2))
    np.testing.assert_allclose(float(cells.rms[3, 2]), expected, rtol=1e-3)
    # Rows are times and columns temperatures: a transposed map would fail one of these.
    assert float(jnp.max(cells.rms[:2])) < 1e-3
    assert float(jnp.max(cells.rms[:, :2])) < 1e-3
