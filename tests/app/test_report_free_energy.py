"""F from the path weights is the path's own, whatever the network believes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact_gaussian
from temperflow.app.report import free_energy
from temperflow.app.report.measure import effective_share, ess_map, explore, temperature_edges
from temperflow.models import Model
from temperflow.paths import SmoothStep
from temperflow.proposals import Langevin, Rates, Splitting, Tempering
from temperflow.sampling import EulerFlow, Sampler

# 36 estimates of one fixed seed, each within 4.5 errors: under one false alarm in 4000.
ERRORS = 4.5
PATH = exact_gaussian.gaussian_path(2, 1.0, SmoothStep(1.0))


@pytest.fixture(scope="module")
def seen():
    """A sampler whose μ is exact and whose F is a random network's, and its rollout."""
    joint = exact_gaussian.joint_of(PATH, bias=(0.0, 0.4, -0.3, 0.5, 0.2))
    wrong = exact_gaussian.random_model(jax.random.key(1), 2, 1.0, height=2.0)
    model = Model(exact_gaussian.exact_model(PATH).control, wrong.free_energy, None)
    proposal = Langevin(joint, PATH.target, Rates(2.0, 2.0, 2.0, 2.0), Splitting())
    sampler = Sampler(model, proposal, EulerFlow(4))
    return sampler, explore(jax.random.key(2), proposal, model, 3000, 24)[1]


def deviations(found, t, beta):
    truth = jax.vmap(PATH.free_energy)(jnp.asarray(t, jnp.float32), jnp.asarray(beta, jnp.float32))
    return (found.estimate - np.asarray(truth)) / found.error


def test_over_time(seen):
    sampler, run = seen
    found = free_energy.over_time(sampler, run)
    z = deviations(found, found.place, np.ones_like(found.place))
    assert np.all(np.abs(z[1:]) < ERRORS)
    # The network itself is far off, so agreement is not inherited from it.
    assert np.max(np.abs(found.learned - found.estimate) / found.error) > 4 * ERRORS


def test_over_temperature(seen):
    sampler, run = seen
    found = free_energy.over_temperature(sampler, run)
    z = deviations(found, np.ones_like(found.place), found.place)
    assert np.all(np.abs(z) < ERRORS)


def test_the_share_of_cold_mass_matters(seen, monkeypatch):
    """Mutant: the cold plateau taken for all of ξ."""
    sampler, run = seen
    monkeypatch.setattr(Tempering, "log_cold_share", lambda self: jnp.zeros(()))
    found = free_energy.over_time(sampler, run)
    z = deviations(found, found.place, np.ones_like(found.place))
    assert np.median(np.abs(z[1:])) > ERRORS


def test_effective_shares_by_cell(seen):
    _, run = seen
    edges = temperature_edges(0.2)
    t_edges = np.linspace(0.0, 1.0, 21)
    cells = ess_map(run, t_edges, edges)
    last = run.log_weight[-1][run.beta[-1] >= edges[-2]]
    # 24 steps: the last cell of time, from 0.95 on, holds the slices 23 and 24.
    before = run.log_weight[-2][run.beta[-2] >= edges[-2]]
    np.testing.assert_allclose(cells[-1, -1], (effective_share(last) + effective_share(before)) / 2)
    np.testing.assert_allclose(cells[0, -1], 1.0, atol=0.1)
