"""β(ξ): two plateaus, a smooth way between them, symmetric (MATH.md section 1)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from temperflow.paths import TemperatureMap

maps = st.builds(
    lambda hottest, cold_edge, width: TemperatureMap(hottest, cold_edge, cold_edge + width),
    st.floats(0.01, 1.0),
    st.floats(0.05, 2.0),
    st.floats(0.1, 3.0),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(temperature=maps)
def test_plateaus_symmetry_range_and_a_continuous_slope(temperature):
    cold, hot, hottest = temperature.cold_edge, temperature.hot_edge, temperature.hottest
    xi = jnp.linspace(-1.5 * hot, 1.5 * hot, 601)
    beta, slope = jax.vmap(jax.value_and_grad(temperature))(xi)
    beta, slope, distance = np.asarray(beta), np.asarray(slope), np.abs(np.asarray(xi))
    assert np.all(beta[distance <= cold * (1.0 - 1e-6)] == 1.0)
    np.testing.assert_allclose(beta[distance >= hot * (1.0 + 1e-6)], hottest, rtol=1e-5, atol=1e-7)
    assert np.all((beta <= 1.0) & (beta >= hottest - 1e-6))
    np.testing.assert_allclose(beta, beta[::-1], atol=1e-5)
    np.testing.assert_allclose(slope, -slope[::-1], atol=1e-4 / (hot - cold))
    assert np.all(slope[distance < cold * (1.0 - 1e-6)] == 0.0)
    # Continuously differentiable: the slope moves no faster than the cubic's curvature, 6(1-β_min)/width².
    curvature = 6.0 * (1.0 - hottest) / (hot - cold) ** 2
    assert np.all(np.abs(np.diff(slope)) <= 1.05 * curvature * (3.0 * hot / 600.0) + 1e-5)
    assert np.array_equal(np.asarray(temperature.is_cold(xi)), np.abs(np.asarray(xi)) <= np.float32(cold))


def test_it_is_the_formula():
    temperature = TemperatureMap(hottest=0.2, cold_edge=0.5, hot_edge=1.5)
    for distance in (0.6, 0.9, 1.4):
        u = distance - 0.5
        expected = 1.0 - 0.8 * (3.0 * u**2 - 2.0 * u**3)
        assert float(temperature(jnp.array(-distance))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("arguments", [(0.0, 1.0, 2.0), (1.2, 1.0, 2.0), (0.5, 0.0, 2.0), (0.5, 2.0, 2.0)])
def test_impossible_arguments_are_refused_with_what_was_got(arguments):
    with pytest.raises(ValueError, match="got"):
        TemperatureMap(*arguments)
