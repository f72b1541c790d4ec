"""What lies behind the draws: outlines that can be told apart, or one."""

import jax.numpy as jnp
import numpy as np
import pytest

from temperflow import targets
from temperflow.app.report.measure import Exploration, Maps, Measurements
from temperflow.app.report.plane import DEPTHS, _density, plane
from temperflow.sampling import Draws
from temperflow.targets import Target

LOW, HIGH = np.full(2, -45.0), np.full(2, 45.0)


def test_small_modes_have_one_outline_and_wide_ones_three():
    values, levels = _density(targets.get("gmm40"), LOW, HIGH)
    assert levels == (values.max() - DEPTHS[0],)
    round_one = Target(lambda x: -0.5 * jnp.sum((x / 15.0) ** 2), dim=2)
    values, levels = _density(round_one, LOW, HIGH)
    assert levels == tuple(values.max() - depth for depth in DEPTHS)
    assert list(levels) == sorted(levels)


@pytest.fixture
def seen():
    """Draws about the origin alone; cold walkers that have found more."""
    narrow = np.random.default_rng(0).normal(size=(500, 2))
    wide = np.concatenate([narrow, narrow + 20.0])
    zeros = jnp.zeros(500)
    draws = Draws(jnp.asarray(narrow, jnp.float32), zeros, zeros[0], zeros[0], zeros, None, 500)
    cold = np.ones((1, len(wide)))
    after = Exploration(np.ones(1), wide[None], cold, 0.0 * cold, 0.0 * cold, 0)
    maps = Maps(np.ones(2), np.ones(2), np.ones((1, 1)), np.ones((1, 1)))
    return Measurements(draws, None, False, wide[None], after, after, maps, 0)


@pytest.mark.parametrize("known", [True, False])
def test_there_is_room_for_what_the_flow_misses(seen, known, monkeypatch):
    both = jnp.concatenate([jnp.zeros((250, 2)), jnp.full((250, 2), 20.0)])
    target = Target(
        lambda x: jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 20.0) ** 2)),
        dim=2,
        sample=(lambda key, n: both) if known else None,
    )
    shown = plane(target, seen)
    assert np.all(shown.low < -1.0)
    assert np.all(shown.high > 20.0)
    outlined = shown.height > shown.levels[0]
    assert outlined[: len(outlined) // 2].any()
    assert outlined[len(outlined) // 2 :].any()


def test_nothing_finite_has_no_outline():
    nowhere = Target(lambda x: -jnp.inf * jnp.sum(x**2), dim=2)
    assert _density(nowhere, LOW, HIGH)[1] == ()
