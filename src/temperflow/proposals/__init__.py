"""Where to look: controlled Langevin dynamics with exact path weights."""

from temperflow.proposals.base import Proposal
from temperflow.proposals.integrators import EulerMaruyama, Integrator, Rates, Splitting
from temperflow.proposals.joint import JointDensity, Tempering, Walker
from temperflow.proposals.langevin import Langevin
from temperflow.proposals.metropolis import MetropolisAdjusted
from temperflow.proposals.overdamped import Overdamped, Transport
from temperflow.proposals.rollout import Rollout, rollout, target_calls, time_grid

__all__ = [
    "EulerMaruyama",
    "Integrator",
    "JointDensity",
    "Langevin",
    "MetropolisAdjusted",
    "Overdamped",
    "Proposal",
    "Rates",
    "Rollout",
    "Splitting",
    "Tempering",
    "Transport",
    "Walker",
    "rollout",
    "target_calls",
    "time_grid",
]
