"""What is learned, and its first derivatives."""

from temperflow.models.divergence import (
    Divergence,
    ExactDivergence,
    HutchinsonDivergence,
    log_abs_det,
    signed_log_det,
    value_and_jacobian,
)
from temperflow.models.features import FourierFeatures
from temperflow.models.networks import Control, FreeEnergy, LearnedPotential, Model, Network

__all__ = [
    "Control",
    "Divergence",
    "ExactDivergence",
    "FourierFeatures",
    "FreeEnergy",
    "HutchinsonDivergence",
    "LearnedPotential",
    "Model",
    "Network",
    "log_abs_det",
    "signed_log_det",
    "value_and_jacobian",
]
