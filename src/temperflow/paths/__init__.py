"""U_t^β(x): temperature, schedules and the continuum between source and target."""

from temperflow.paths.continuum import Cached, Continuum, Potential, Widening
from temperflow.paths.schedules import Exponential, Identity, Schedule, SmoothStep, Tabulated
from temperflow.paths.temperature import Confinement, TemperatureMap

__all__ = [
    "Cached",
    "Confinement",
    "Continuum",
    "Exponential",
    "Identity",
    "Potential",
    "Schedule",
    "SmoothStep",
    "Tabulated",
    "TemperatureMap",
    "Widening",
]
