"""Puts this folder on the import path for the helpers beside it, and the fixtures that every folder shares."""

import jax
import pytest

import exact_gaussian
from temperflow.paths import SmoothStep


def pytest_ignore_collect(collection_path):
    """Helpers are imported by the tests that use them; --doctest-modules would run each as a module of its own."""
    if collection_path.suffix == ".py" and not collection_path.name.startswith("test_"):
        return True
    return None


@pytest.fixture(scope="session")
def jarzynski_cases():
    """Path and random model in two and five dimensions.

    The random numbers of the models were chosen among sixty for a transport as large as the
    widths whose divergence does not average out, so that a missing determinant can be seen, and
    whose flow leaves a fifth of the weights effective, so that a standard error means something.
    """
    cases = {}
    for dim, seed, speed in ((2, 17, 9.0), (5, 35, 6.0)):
        path = exact_gaussian.gaussian_path(dim, 1.0, SmoothStep(1.0))
        cases[dim] = (path, exact_gaussian.random_model(jax.random.key(seed), dim, speed, spread=0.3))
    return cases
