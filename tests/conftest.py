"""Puts this folder on the import path for the helpers beside it, and the fixtures that every folder shares."""

import jax
import pytest

import exact_gaussian
from temperflow.paths import SmoothStep


@pytest.fixture(scope="session")
def jarzynski_cases():
    """Path and random model in two and five dimensions, transport comparable with the widths."""
    cases = {}
    for dim, speed in ((2, 6.0), (5, 4.0)):
        path = exact_gaussian.gaussian_path(dim, 1.0, SmoothStep(1.0))
        cases[dim] = (path, exact_gaussian.random_model(jax.random.key(dim), dim, speed))
    return cases
