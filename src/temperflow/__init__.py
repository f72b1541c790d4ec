"""temperflow: an unnormalised log density in; weighted draws, the evidence and an honest verdict out.

>>> import temperflow as tflow
>>> target = tflow.targets.get("funnel")
>>> target.dim
10
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from temperflow import targets
    from temperflow.app import recipes
    from temperflow.app.config import Config
    from temperflow.app.errors import Interrupted, NumericalError, TemperflowError, UsageError
    from temperflow.app.runner import Run, fit, load, resume
    from temperflow.diagnostics import Metrics, evaluate
    from temperflow.sampling import Draws, Sampler
    from temperflow.targets import Target

__version__ = "0.1.0"

# Each name is imported when it is first asked for: `temperflow --help` should not wait for JAX.
_HOMES = {
    "Config": "temperflow.app.config",
    "Draws": "temperflow.sampling",
    "Interrupted": "temperflow.app.errors",
    "Metrics": "temperflow.diagnostics",
    "NumericalError": "temperflow.app.errors",
    "Run": "temperflow.app.runner",
    "Sampler": "temperflow.sampling",
    "Target": "temperflow.targets",
    "TemperflowError": "temperflow.app.errors",
    "UsageError": "temperflow.app.errors",
    "evaluate": "temperflow.diagnostics",
    "fit": "temperflow.app.runner",
    "load": "temperflow.app.runner",
    "resume": "temperflow.app.runner",
}
_MODULES = {"recipes": "temperflow.app.recipes", "targets": "temperflow.targets"}

__all__ = [
    "Config",
    "Draws",
    "Interrupted",
    "Metrics",
    "NumericalError",
    "Run",
    "Sampler",
    "Target",
    "TemperflowError",
    "UsageError",
    "evaluate",
    "fit",
    "load",
    "recipes",
    "resume",
    "targets",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'temperflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
