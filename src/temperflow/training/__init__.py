"""Driving the residual down at the locations that a proposal visits."""

from temperflow.training.bias import flattened
from temperflow.training.buffer import Buffer, Location, locations_of
from temperflow.training.curriculum import Curriculum
from temperflow.training.loss import Loss, residuals
from temperflow.training.state import EpochInfo, TrainState
from temperflow.training.trainer import Trainer

__all__ = [
    "Buffer",
    "Curriculum",
    "EpochInfo",
    "Location",
    "Loss",
    "TrainState",
    "Trainer",
    "flattened",
    "locations_of",
    "residuals",
]
