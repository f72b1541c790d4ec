"""Exact draws against the density they claim to come from.

Every seed is fixed. A Kolmogorov-Smirnov test rejects below p = 1e-4 and a mean beyond 4
standard errors (6e-5): false alarms over the whole file are fewer than one seed in 200.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_densities as reference
from scipy import integrate, stats

from temperflow import targets

COUNT = 20_000
RARE = 1e-4


def draws_of(target, seed=0):
    return jax.jit(lambda key: target.sample(key, COUNT))(jax.random.key(seed))


def virial_error(target, x):
    r"""z of $E[x\cdot\nabla U] = d$, which integration by parts demands of any density's own draws."""
    slope = jax.jit(jax.vmap(lambda point: target.energy_and_grad(point)[1]))(x)
    virial = np.sum(np.asarray(x * slope, np.float64), axis=1)
    return (virial.mean() - target.dim) / (virial.std(ddof=1) / np.sqrt(len(virial)))


EXACT = {
    **{name: {} for name in (*reference.GMM_SCALES, "gaussian", "many-well", "funnel")},
    "phi4": {"length": 4, "mass_squared": 0.5, "coupling": 0.0},
}


@pytest.mark.parametrize("name", EXACT)
def test_draws_obey_the_virial_theorem_and_stretched_ones_do_not(name):
    target = targets.get(name, **EXACT[name])
    x = draws_of(target)
    assert abs(virial_error(target, x)) < 4
    assert abs(virial_error(target, 1.05 * x)) > 4


def mixture_distribution(name, direction):
    """The distribution function of a mixture's projection."""
    places = reference.mixture_means(name) @ direction
    return lambda y: np.mean(stats.norm.cdf(y[:, None], places[None, :], reference.GMM_SCALES[name]), axis=1)


@pytest.mark.parametrize("name", sorted(reference.GMM_SCALES))
def test_mixture_draws_have_the_density_s_projections(name):
    x = np.asarray(draws_of(targets.get(name), seed=1), np.float64)
    for angle in (0.0, 0.7, 2.0):
        direction = np.array([np.cos(angle), np.sin(angle)])
        known = mixture_distribution(name, direction)
        assert stats.kstest(x @ direction, known).pvalue > RARE
    # Mutant: one of the modes never drawn, as a sampler would lose it.
    lost = reference.mixture_means(name)[0]
    kept = x[np.linalg.norm(x - lost, axis=1) > 4 * reference.GMM_SCALES[name]]
    assert stats.kstest(kept @ direction, known).pvalue < RARE


def double_well_distribution():
    """The distribution function of the first of a pair, by quadrature on a fine grid."""
    grid = np.linspace(-4, 4, 40_001)
    density = np.exp(-(grid**4) + 6 * grid**2 + grid / 2)
    total = integrate.cumulative_trapezoid(density, grid, initial=0)
    return lambda y: np.interp(y, grid, total / total[-1])


def test_many_well_draws_have_the_marginals_of_quadrature():
    x = np.asarray(draws_of(targets.get("many-well", dim=4), seed=2), np.float64)
    known = double_well_distribution()
    assert stats.kstest(x[:, 0::2].ravel(), known).pvalue > RARE
    assert stats.kstest(x[:, 1::2].ravel(), stats.norm.cdf).pvalue > RARE
    assert abs(np.corrcoef(x[:, 0], x[:, 2])[0, 1]) < 4 / np.sqrt(COUNT)
    # Mutant: the two wells equally full.
    assert stats.kstest(x[:, 0] * np.sign(x[:, 1]), known).pvalue < RARE


def test_funnel_draws_widen_with_their_mouth():
    x = np.asarray(draws_of(targets.get("funnel", dim=3), seed=3), np.float64)
    assert stats.kstest(x[:, 0], stats.norm(0, 3).cdf).pvalue > RARE
    assert stats.kstest((x[:, 1:] * np.exp(-x[:, :1] / 2)).ravel(), stats.norm.cdf).pvalue > RARE
    # Mutant: the width e^{x0} instead of the variance.
    assert stats.kstest((x[:, 1:] * np.exp(-x[:, :1])).ravel(), stats.norm.cdf).pvalue < RARE


def test_free_field_draws_have_the_inverse_hessian_as_covariance():
    target = targets.get("phi4", **EXACT["phi4"])
    x = np.asarray(draws_of(target, seed=4), np.float64)
    hessian = np.asarray(jax.jit(jax.hessian(lambda x: target.energy(x)))(jnp.zeros(target.dim)), np.float64)
    white = x @ np.linalg.cholesky(hessian)
    assert stats.kstest(white.ravel(), stats.norm.cdf).pvalue > RARE
    assert stats.kstest(np.sum(white**2, axis=1), stats.chi2(target.dim).cdf).pvalue > RARE


def test_correlated_draws_are_white_after_whitening():
    target = targets.get("gaussian", dim=5, condition=30.0)
    x = np.asarray(draws_of(target, seed=5), np.float64)
    energy = np.asarray(jax.vmap(target.energy)(jnp.asarray(x, jnp.float32)))
    assert stats.kstest(2 * energy, stats.chi2(5).cdf).pvalue > RARE
    wanted = np.array([2.0, -1.0, 2.0, -1.0, 2.0])
    assert np.all(np.abs(x.mean(0) - wanted) < 4 * x.std(0) / np.sqrt(COUNT))


@pytest.mark.parametrize("name", ["gmm40", "many-well", "funnel", "gaussian"])
def test_a_seed_fixes_the_draws(name):
    target = targets.get(name)
    sample = jax.jit(lambda key: target.sample(key, 8))
    first, again, other = (np.asarray(sample(jax.random.key(k))) for k in (7, 7, 8))
    assert first.shape == (8, target.dim)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
