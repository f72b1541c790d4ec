"""What a user would reach for instead of a trained sampler, on the same `Target` and with the same `Draws`."""

from temperflow.baselines.annealed_importance import AnnealingInfo, annealed_importance
from temperflow.baselines.ladder import Ladder
from temperflow.baselines.moves import AbstractMove, Hamiltonian, RandomWalk
from temperflow.baselines.parallel_tempering import TemperingInfo, parallel_tempering
from temperflow.baselines.pilot import Survey, survey
from temperflow.baselines.tempered_smc import SmcInfo, tempered_smc

__all__ = [
    "AbstractMove",
    "AnnealingInfo",
    "Hamiltonian",
    "Ladder",
    "RandomWalk",
    "SmcInfo",
    "Survey",
    "TemperingInfo",
    "annealed_importance",
    "parallel_tempering",
    "survey",
    "tempered_smc",
]
