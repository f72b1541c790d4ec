"""W2 by way of prices is the plain assignment's, to rounding, on clouds that are hard for either."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from temperflow.diagnostics import wasserstein
from temperflow.diagnostics.wasserstein import w2

N = 600


def cloud(kind, seed):
    numbers = np.random.default_rng(seed)
    wide = 40.0 * numbers.uniform(-1.0, 1.0, (40, 2))[numbers.integers(40, size=N)] + numbers.normal(size=(N, 2))
    return {
        "wide": wide,
        "narrow": numbers.normal(size=(N, 2)),
        "few modes": np.where(wide[:, :1] > 20.0, wide, wide[:1]) + 0.01 * numbers.normal(size=(N, 2)),
        "copies": np.repeat(wide[: N // 20], 20, axis=0),
        "a point": np.ones((N, 2)),
        "far": 1e6 + wide,
    }[kind]


def plainly(x, y):
    cost = cdist(x, y, "sqeuclidean")
    return np.sqrt(cost[linear_sum_assignment(cost)].mean())


KINDS = ["wide", "narrow", "few modes", "copies", "a point", "far"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_distance_is_the_plain_assignments(kind):
    x, y = cloud(kind, 0), cloud("wide", 1)
    assert w2(x, y) == pytest.approx(plainly(x, y), rel=1e-12)
    assert w2(y, x) == pytest.approx(plainly(x, y), rel=1e-12)


def test_wrong_prices_cost_time_and_nothing_else(monkeypatch):
    x, y = cloud("few modes", 0), cloud("wide", 1)
    monkeypatch.setattr(wasserstein, "_prices", lambda cost: np.linspace(-500.0, 500.0, cost.shape[0]))
    assert w2(x, y) == pytest.approx(plainly(x, y), rel=1e-12)


def test_what_changes_single_costs_changes_the_distance(monkeypatch):
    """Mutant: no longer a constant from each row and column."""
    x, y = cloud("few modes", 0), cloud("wide", 1)
    monkeypatch.setattr(wasserstein, "_charge", lambda cost: np.sqrt(cost, out=cost))
    assert w2(x, y) > 1.001 * plainly(x, y)


def test_prices_leave_a_perfect_match_for_nothing():
    """What the speed rests on: after the charge a whole assignment, or nearly, costs nothing."""
    x, y = cloud("few modes", 0), cloud("wide", 1)
    cost = cdist(x, y, "sqeuclidean")
    before = cost[linear_sum_assignment(cost)].sum()
    wasserstein._charge(cost)
    assert cost.min() >= 0.0
    assert cost[linear_sum_assignment(cost)].sum() < 0.05 * before
