"""What lies behind the draws: outlines that can be told apart, or one."""

import jax.numpy as jnp
import numpy as np

from temperflow import targets
from temperflow.app.report.plane import DEPTHS, _density
from temperflow.targets import Target

LOW, HIGH = np.full(2, -45.0), np.full(2, 45.0)


def test_small_modes_have_one_outline_and_wide_ones_three():
    values, levels = _density(targets.get("gmm40"), LOW, HIGH)
    assert levels == (values.max() - DEPTHS[0],)
    round_one = Target(lambda x: -0.5 * jnp.sum((x / 15.0) ** 2), dim=2)
    values, levels = _density(round_one, LOW, HIGH)
    assert levels == tuple(values.max() - depth for depth in DEPTHS)
    assert list(levels) == sorted(levels)


def test_nothing_finite_has_no_outline():
    nowhere = Target(lambda x: -jnp.inf * jnp.sum(x**2), dim=2)
    assert _density(nowhere, LOW, HIGH)[1] == ()
