"""U_t^β(x): temperature, schedules and the continuum between source and target."""

from temperflow.paths.continuum import Cached, Continuum, Expansion, Potential, Widening
from temperflow.paths.schedules import Adapted, Exponential, Identity, Schedule, SmoothStep, Tabulated
from temperflow.paths.temperature import Confinement, TemperatureMap

__all__ = [
    "Adapted",
    "Cached",
    "Confinement",
    "Continuum",
    "Expansion",
    "Exponential",
    "Identity",
    "Potential",
    "Schedule",
    "SmoothStep",
    "Tabulated",
    "TemperatureMap",
    "Widening",
]
