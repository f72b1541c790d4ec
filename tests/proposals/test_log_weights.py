"""Arithmetic of log weights, and resampling: properties that hold for any weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from temperflow.proposals.weights import (
    effective_sample_size,
    log_mean_exp,
    log_mean_exp_error,
    normalised,
    systematic_resample,
)

SIZE = 12  # one shape, one compilation
finite = st.floats(-300.0, 300.0, width=32)
log_weights = st.lists(st.one_of(finite, st.just(-np.inf)), min_size=SIZE, max_size=SIZE).filter(
    lambda values: max(values) > -np.inf
)
checked = settings(max_examples=60, deadline=None, derandomize=True)

resample = jax.jit(systematic_resample, static_argnums=2)
shares_of = jax.jit(normalised)


def exact_shares(values):
    values = np.asarray(values, np.float64)
    weights = np.exp(values - values.max())
    return weights / weights.sum()


@checked
@given(values=log_weights, shift=st.floats(-1e3, 1e3, width=32))
def test_shares_and_effective_size_agree_with_double_precision_and_ignore_a_shift(values, shift):
    shares = exact_shares(values)
    for moved in (0.0, shift):
        log_weight = jnp.asarray(np.asarray(values, np.float32) + np.float32(moved))
        # The shift itself rounds the weights, by an ulp of its size.
        tolerance = 2e-4 if moved else 1e-5
        np.testing.assert_allclose(shares_of(log_weight), shares, atol=tolerance)
        np.testing.assert_allclose(effective_sample_size(log_weight), 1.0 / (SIZE * np.sum(shares**2)), rtol=4e-4)
    mean = np.logaddexp.reduce(np.asarray(values, np.float64)) - np.log(SIZE)
    np.testing.assert_allclose(log_mean_exp(jnp.asarray(values, jnp.float32)), mean, rtol=1e-5, atol=1e-5)


@checked
@given(values=log_weights, seed=st.integers(0, 10_000))
def test_systematic_resampling_keeps_each_walker_floor_or_ceiling_times(values, seed):
    expected = SIZE * exact_shares(values)
    chosen = np.asarray(resample(jax.random.key(seed), jnp.asarray(values, jnp.float32), SIZE))
    copies = np.bincount(chosen, minlength=SIZE)
    assert copies.sum() == SIZE
    # An exact integer may be missed by rounding.
    assert np.all(copies >= np.floor(expected - 1e-4))
    assert np.all(copies <= np.ceil(expected + 1e-4))
    assert np.all(copies[np.isneginf(values)] == 0)


def test_the_expected_number_of_copies_is_the_weight():
    """4000 resamplings; a false alarm of three standard errors somewhere among 12 walkers: 3 %. Fixed seed."""
    log_weight = jnp.asarray(np.random.default_rng(0).normal(size=SIZE), jnp.float32)
    keys = jax.random.split(jax.random.key(1), 4000)
    chosen = np.asarray(jax.jit(jax.vmap(lambda k: systematic_resample(k, log_weight, SIZE)))(keys))
    copies = np.stack([np.bincount(row, minlength=SIZE) for row in chosen])
    expected = SIZE * exact_shares(log_weight)

    def off(predicted):
        return np.max(np.abs(copies.mean(0) - predicted) / (copies.std(0, ddof=1) + 1e-12) * np.sqrt(len(copies)))

    assert off(expected) < 3.0
    assert off(SIZE * exact_shares(0.95 * log_weight)) > 6.0


@pytest.mark.parametrize("offset", [0.0, 1.0 - 2.0**-24])
def test_no_tooth_of_the_comb_lands_on_a_dead_walker_at_the_end(monkeypatch, offset):
    """The last tooth may round up to the whole sum; behind it there may be walkers of weight zero."""
    count = 100_000
    log_weight = jnp.where(jnp.arange(count) < count - 50, 0.0, -jnp.inf)
    monkeypatch.setattr(jax.random, "uniform", lambda key, **_: jnp.asarray(offset, jnp.float32))
    chosen = systematic_resample(jax.random.key(0), log_weight, count)
    assert int(chosen.max()) < count - 50


def test_when_no_weight_is_left_nothing_is_known():
    nothing = jnp.full(4, -jnp.inf)
    np.testing.assert_allclose(normalised(nothing), 0.25)
    assert log_mean_exp(nothing) == -jnp.inf


def test_the_error_of_the_mean_is_the_scatter_of_repeats():
    """The stated error against 2000 repeats: its own relative error is 1.6 %, ten per cent are six of those."""
    log_weight = 0.7 * jax.random.normal(jax.random.key(3), (2000, 256))
    stated = jax.vmap(log_mean_exp_error)(log_weight)
    scatter = np.std(jax.vmap(log_mean_exp)(log_weight), ddof=1)
    np.testing.assert_allclose(np.mean(stated), scatter, rtol=0.1)
