"""Diagnostics: can the draws be trusted? Every number with its error and its floor."""

from temperflow.diagnostics.bounds import Estimate, elbo, eubo, forward_ess, reverse_ess
from temperflow.diagnostics.coverage import Coverage, coverage, coverage_floor
from temperflow.diagnostics.metrics import Metrics, evaluate, summarise
from temperflow.diagnostics.rounds import FlowSampler, Rounds, play
from temperflow.diagnostics.wasserstein import mean_and_spread, w2, w2_floor

__all__ = [
    "Coverage",
    "Estimate",
    "FlowSampler",
    "Metrics",
    "Rounds",
    "coverage",
    "coverage_floor",
    "elbo",
    "eubo",
    "evaluate",
    "forward_ess",
    "mean_and_spread",
    "play",
    "reverse_ess",
    "summarise",
    "w2",
    "w2_floor",
]
