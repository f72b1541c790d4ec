"""Schedules rise from nought to one, without jumps, and are differentiable where they promise to be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from temperflow.paths import Adapted, Exponential, Identity, Schedule, SmoothStep, Tabulated

KNOTS = 6
checked = settings(max_examples=50, deadline=None, derandomize=True)
fractions = st.floats(0.01, 1.0)
grid = jnp.linspace(0.0, 1.0, 401)
LEVELS = np.array([0.0, 0.0015, 0.005, 0.03, 0.2, 1.0])


@jax.jit
def tabulated(times, values):
    table = Tabulated(times, values)
    return jax.vmap(table)(grid), jax.vmap(table)(times), jax.vmap(jax.grad(table))(grid)


@pytest.mark.parametrize(
    "schedule",
    [
        Identity(),
        Exponential(rate=8.0),
        Exponential(rate=0.5, start=0.3),
        SmoothStep(end=0.4),
        SmoothStep(end=1.0),
        Tabulated(jnp.array([0.0, 0.2, 0.3, 1.0]), jnp.array([0.0, 0.01, 0.01, 1.0])),
        Adapted.of_levels(LEVELS, start=0.35),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_a_schedule_rises_from_nought_to_one_and_autodiff_gives_its_slope(schedule: Schedule):
    values = np.asarray(jax.vmap(schedule)(grid), np.float64)
    assert values[0] == 0.0
    assert values[-1] == pytest.approx(1.0, abs=1e-6)
    assert np.all(np.diff(values) >= -1e-7)
    slopes = np.asarray(jax.vmap(jax.grad(schedule))(grid), np.float64)
    assert np.all(slopes >= -1e-6)
    # The integral of the slope is the schedule: no jump, and the derivative is the function's own.
    rise = np.concatenate([[0.0], np.cumsum((slopes[1:] + slopes[:-1]) / 2.0) * (1.0 / 400.0)])
    np.testing.assert_allclose(rise, values, atol=3e-3)


@pytest.mark.parametrize("rate", [0.3, 3.0, 12.0])
def test_the_exponential_is_its_formula(rate):
    t = np.linspace(0.0, 1.0, 11)
    np.testing.assert_allclose(
        jax.vmap(Exponential(rate))(jnp.asarray(t, jnp.float32)), np.expm1(rate * t) / np.expm1(rate), rtol=2e-5
    )


@pytest.mark.parametrize(
    ("schedule", "at"),
    [
        (Tabulated(jnp.array([0.0, 0.25, 1.0]), jnp.array([0.0, 0.25, 1.0])), 0.0),
        (Tabulated(jnp.array([0.0, 0.25, 1.0]), jnp.array([0.0, 0.25, 1.0])), 0.25),
        (Exponential(rate=1e-3), 0.0),
    ],
)
def test_the_slope_is_whole_at_the_knots_and_at_the_start(schedule, at):
    # All are straight lines of slope one; a clip or a maximum would have half of it there.
    assert float(jax.grad(schedule)(jnp.array(at))) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("start", [0.0, 0.35])
def test_an_adapted_schedule_meets_its_levels_at_equal_times_and_enters_gently(start):
    schedule = Adapted.of_levels(LEVELS, start)
    times = start + (1.0 - start) * np.arange(1, LEVELS.size) / (LEVELS.size - 1)
    found = np.asarray(jax.vmap(schedule)(jnp.asarray(times, jnp.float32)), np.float64)
    np.testing.assert_allclose(found, LEVELS[1:], rtol=2e-4)
    # At the outset its slope is next to nothing beside that of a straight line to the first level.
    first = float(jax.grad(schedule)(jnp.array(0.0)))
    assert 0.0 < first < 0.1 * LEVELS[1] / times[0]


@checked
@given(
    widths=st.lists(fractions, min_size=KNOTS - 1, max_size=KNOTS - 1),
    rises=st.lists(st.one_of(st.just(0.0), fractions), min_size=KNOTS - 1, max_size=KNOTS - 1).filter(any),
)
def test_a_table_is_met_at_its_knots_and_stays_monotone_and_smooth_between(widths, rises):
    times = np.concatenate([[0.0], np.cumsum(widths)]) / np.sum(widths)
    values = np.concatenate([[0.0], np.cumsum(rises)]) / np.sum(rises)
    along, at_knots, slopes = tabulated(jnp.asarray(times, jnp.float32), jnp.asarray(values, jnp.float32))
    np.testing.assert_allclose(at_knots, values, atol=2e-6)
    assert np.all(np.diff(along) >= -2e-6)
    # Fritsch and Carlson: slopes up to three times the steepest secant keep a cubic monotone.
    steepest = np.max(np.diff(values) / np.diff(times))
    assert np.all(np.asarray(slopes) >= -1e-4 * steepest)
    assert np.all(np.asarray(slopes) <= 3.0 * steepest * (1.0 + 1e-4))


def test_a_table_has_no_kink_at_its_knots():
    table = Tabulated(jnp.array([0.0, 0.3, 0.5, 1.0]), jnp.array([0.0, 0.1, 0.6, 1.0]))
    for knot in (0.3, 0.5):
        left, right = (float(jax.grad(table)(jnp.array(knot + side, jnp.float32))) for side in (-1e-5, 1e-5))
        assert left == pytest.approx(right, rel=2e-3)
        assert left > 0.0


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [(Exponential, {"rate": 0.0}), (Exponential, {"rate": 1.0, "start": 1.0}), (SmoothStep, {"end": 0.0})],
)
def test_impossible_arguments_are_refused_with_what_was_got(kind, arguments):
    with pytest.raises(ValueError, match="got"):
        kind(**arguments)
