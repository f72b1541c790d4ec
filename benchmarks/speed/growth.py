"""How the iteration and the rollout grow with each size, the others as in the recipe."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.speed.cases import Case, case
from benchmarks.speed.clock import steady
from benchmarks.speed.iteration import learner
from benchmarks.speed.machine import fast_precision
from benchmarks.speed.walks import explorer
from temperflow import targets
from temperflow.models import ExactDivergence, HutchinsonDivergence
from temperflow.training import Loss

Sizes = dict[str, list[int]]
More = Callable[[], bool]

SMALL_BUFFER = {"training.walkers": 256, "training.steps": 20, "training.memory": 1}


def of_iteration(recipe: str, sizes: Sizes, iterations: int, seconds: float, more: More) -> dict[str, Any]:
    """Milliseconds an iteration, by setting and size."""
    found: dict[str, Any] = {}
    for setting, values in sizes.items():
        for value in values:
            if not more():
                return found
            one = case(recipe, {**SMALL_BUFFER, setting: value})
            timing = steady(learner(one, iterations, fast_precision()), seconds).per(iterations)
            found.setdefault(setting, {})[str(value)] = timing.in_milliseconds()
    return found


def of_dimension(recipe: str, dims: list[int], iterations: int, seconds: float, more: More) -> dict[str, Any]:
    """Milliseconds an iteration by dimension, with the divergence exact and by two probes."""
    found: dict[str, Any] = {"exact": {}, "two_probes": {}}
    for dim in dims:
        one = case(recipe, SMALL_BUFFER, targets.get("gaussian", dim=dim))
        for kind, divergence in (("exact", ExactDivergence()), ("two_probes", HutchinsonDivergence(2))):
            if not more():
                return found
            learning = learner(_with_loss(one, Loss(divergence)), iterations, fast_precision())
            found[kind][str(dim)] = steady(learning, seconds).per(iterations).in_milliseconds()
    return found


def of_rollout(recipe: str, sizes: Sizes, seconds: float, more: More) -> dict[str, Any]:
    """Milliseconds a rollout, by setting and size."""
    found: dict[str, Any] = {}
    for setting, values in sizes.items():
        for value in values:
            if not more():
                return found
            one = case(recipe, {**SMALL_BUFFER, setting: value})
            found.setdefault(setting, {})[str(value)] = steady(explorer(one), seconds).in_milliseconds()
    return found


def _with_loss(one: Case, loss: Loss) -> Case:
    return replace(one, built=replace(one.built, trainer=replace(one.trainer, loss=loss)))
