"""The shape of the weights' tail: what it is of, and what it must not depend on."""

import numpy as np
import pytest

from temperflow.sampling.pareto import pareto_khat

COUNT = 500  # of which the largest 68 are the tail


def quantiles(shape):
    """Log weights u^-k at evenly spaced u: a tail of this shape without any noise."""
    return -shape * np.log((np.arange(COUNT) + 0.5) / COUNT)


@pytest.mark.parametrize("shape", [0.3, 0.7, 1.5])
def test_it_finds_the_shape(shape):
    # The prior pulls towards a half with the say of ten weights among 78.
    pulled = (68 * shape + 5) / 78
    assert pareto_khat(quantiles(shape)) == pytest.approx(pulled, abs=0.1)


@pytest.mark.parametrize("constant", [-1e5, 3.0, 700.0])
def test_a_constant_does_not_matter(constant):
    assert pareto_khat(quantiles(0.7) + constant) == pytest.approx(pareto_khat(quantiles(0.7)), rel=1e-6)


@pytest.mark.parametrize("depth", [750.0, 1e4, 1e8, np.inf])
def test_a_foot_hundreds_of_nats_below_leaves_the_largest_weights_in(depth):
    """Warnings are errors here: neither may anything overflow, nor may an overflow cost a weight."""
    heavy = -30.0 * np.arange(68)
    rest = np.full(COUNT - 68, heavy[-1])

    def with_foot(foot):
        tail = np.where(heavy > -560.0, heavy, foot)  # 19 weights, the others nothing beside them
        return pareto_khat(np.concatenate([tail, np.minimum(rest, foot)]))

    assert with_foot(-depth) == pytest.approx(with_foot(-600.0), rel=1e-9)
    assert with_foot(-600.0) > 10.0
