"""Energies that are infinite or not a number are places without mass, for every method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperflow.baselines import annealed_importance, parallel_tempering, tempered_smc
from temperflow.targets import Target

CENTRE, RADIUS = np.array([0.8, -0.8]), 0.4


def holed():
    """A standard Gaussian: not a number left of -0.5, empty above 1.5, and a disk of infinite density."""

    def log_density(x):
        plain = -0.5 * jnp.sum(x**2)
        plain = jnp.where(x[0] < -0.5, jnp.nan, plain)
        plain = jnp.where(x[1] > 1.5, -jnp.inf, plain)
        return jnp.where(jnp.sum((x - jnp.asarray(CENTRE, x.dtype)) ** 2) < RADIUS**2, jnp.inf, plain)

    return Target(log_density, dim=2, source_scale=1.5)


def alive(x):
    inside = np.sum((x - CENTRE) ** 2, axis=-1) >= RADIUS**2
    return (x[..., 0] >= -0.5) & (x[..., 1] <= 1.5) & inside


def log_evidence():
    axis = np.arange(-7, 7, 0.004)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    return np.log(np.sum(np.exp(-0.5 * np.sum(grid**2, axis=-1)) * alive(grid)) * 0.004**2)


METHODS = {
    annealed_importance: {"n": 4000, "steps": 8, "moves": 2},
    tempered_smc: {"particles": 500, "islands": 16},
    parallel_tempering: {"n": 2048, "levels": 5, "sweeps": 128},
}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_holes_hold_no_draws_and_no_mass(method):
    draws, info = method(jax.random.key(4), holed(), **METHODS[method])
    held = np.asarray(draws.log_weight) > -np.inf
    assert held.mean() > 0.2
    assert np.all(alive(np.asarray(draws.x)[held]))
    assert np.all(np.isfinite(np.asarray(draws.log_density)[held]))
    assert np.all(np.isfinite(np.asarray(info.acceptance)))
    # Tuning on the particles themselves costs tempered SMC a bias of order 1/particles.
    assert abs(draws.log_evidence - log_evidence()) < 4 * draws.log_evidence_error + 0.01
    assert draws.log_evidence_error < 0.05
