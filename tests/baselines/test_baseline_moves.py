"""Each local move leaves its level invariant: exact draws go in, and exact draws must come out."""

import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from two_hills import mean_and_error

from temperflow.baselines import Hamiltonian, RandomWalk
from temperflow.baselines.geometric import GeometricPath, geometric_path
from temperflow.baselines.moves import repeat_move
from temperflow.targets import Target

COUNT = 40_000
PRECISION = np.array([[4.0, 1.0], [1.0, 1.5]])
MEAN = np.array([1.0, -0.5])
SOURCE = 1.5


def gaussian():
    def log_density(x):
        centred = x - jnp.asarray(MEAN, x.dtype)
        return -0.5 * jnp.vdot(centred, jnp.asarray(PRECISION, x.dtype) @ centred)

    return geometric_path(Target(log_density, dim=2), SOURCE)


def level_law(s):
    """Mean and covariance of π_s, itself Gaussian."""
    precision = (1 - s) / SOURCE**2 * np.eye(2) + s * PRECISION
    covariance = np.linalg.inv(precision)
    return covariance @ (s * PRECISION @ MEAN), covariance


def largest_z(move, path, s, step):
    """Largest z over means and second moments after three moves of exact draws; five statistics."""
    mean, covariance = level_law(s)
    noise = np.random.default_rng(3).normal(size=(COUNT, 2))
    start = mean + noise @ np.linalg.cholesky(covariance).T

    @eqx.filter_jit
    def moved(x, s):
        def one(key, x):
            point = path.evaluate(x, with_gradient=move.uses_gradient)
            return repeat_move(key, move, 3, path, s, jnp.asarray(step), point)

        return jax.vmap(one)(jax.random.split(jax.random.key(1), COUNT), x)

    points, probability = moved(jnp.asarray(start, jnp.float32), jnp.asarray(s))
    assert 0.3 < jnp.mean(probability) < 0.95
    centred = np.asarray(points.x, np.float64) - mean
    products = centred[:, [0, 0, 1]] * centred[:, [0, 1, 1]] - covariance[[0, 0, 1], [0, 1, 1]]
    statistics = np.concatenate([centred, products], axis=1)
    return max(abs(mean) / error for mean, error in map(mean_and_error, statistics.T))


@pytest.mark.parametrize(("move", "step"), [(RandomWalk(), [0.8, 1.2]), (Hamiltonian(jitter=0.2), [0.9, 1.1])])
def test_moves_keep_their_level_and_a_wrong_acceptance_does_not(move, step, monkeypatch):
    # Five statistics at 4 standard errors and a level: a false alarm in 1,500 seeds.
    assert largest_z(move, gaussian(), 0.5, step) < 4
    moves = importlib.import_module("temperflow.baselines.moves")
    honest = moves.metropolis
    monkeypatch.setattr(moves, "metropolis", lambda key, ratio, new, old: honest(key, 0.5 * ratio, new, old))
    assert largest_z(move, gaussian(), 0.5, step) > 4


def test_a_wrong_gradient_makes_a_worse_hamiltonian_move_and_still_an_exact_one():
    class SkewedPath(GeometricPath):
        def gradient(self, s, point):
            return 1.6 * point.x - s

    honest = gaussian()
    skewed = SkewedPath(honest.target, honest.source_scale)
    assert largest_z(Hamiltonian(), skewed, 0.5, [0.8, 1.0]) < 4


def test_a_point_remembers_what_it_paid_for():
    path = gaussian()
    x = jnp.array([0.3, -1.1])
    point = path.evaluate(x, with_gradient=True)

    def level_energy(s, x):
        return path.energy(s, path.evaluate(x, with_gradient=False))

    for s in (0.0, 0.3, 1.0):
        mean, covariance = level_law(s)
        slope = jax.grad(level_energy, argnums=1)(jnp.asarray(s), x)
        np.testing.assert_allclose(slope, np.linalg.solve(covariance, np.asarray(x) - mean), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(path.gradient(jnp.asarray(s), point), slope, rtol=1e-5, atol=1e-5)
    source = -jnp.sum(jax.scipy.stats.norm.logpdf(x, 0.0, SOURCE))
    np.testing.assert_allclose(path.source_energy(x), source, rtol=1e-6)
