"""From a trained control to weighted draws."""

from temperflow.sampling.draws import Draws
from temperflow.sampling.flow import AdaptiveFlow, EulerFlow, Flow, RungeKuttaFlow
from temperflow.sampling.sampler import METHODS, MOST_DRAWS, Method, Sampler

__all__ = [
    "METHODS",
    "MOST_DRAWS",
    "AdaptiveFlow",
    "Draws",
    "EulerFlow",
    "Flow",
    "Method",
    "RungeKuttaFlow",
    "Sampler",
]
