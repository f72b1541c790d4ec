"""Targets: what there is to sample, each by a name, with what is known about it.

>>> from temperflow import targets
>>> target = targets.get("many-well-32")
>>> target.dim, round(target.log_evidence, 4)
(32, 164.6957)
>>> targets.get("funel")
Traceback (most recent call last):
    ...
ValueError: got target 'funel', expected one of targets.names(); did you mean 'funnel'?
"""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from temperflow.targets.base import Modes, Target
from temperflow.targets.funnel import neal_funnel
from temperflow.targets.gaussian import correlated_gaussian
from temperflow.targets.many_well import many_well
from temperflow.targets.mixtures import gmm9, gmm40, gmm40_fab, gmm40_jax, gmm40_released
from temperflow.targets.phi4 import phi4, phi4_ordered

__all__ = ["Modes", "Target", "get", "names"]

_BUILDERS: dict[str, Callable[..., Target]] = {
    "gaussian": correlated_gaussian,
    "gmm9": gmm9,
    "gmm40": gmm40,
    "gmm40-released": gmm40_released,
    "gmm40-fab": gmm40_fab,
    "gmm40-jax": gmm40_jax,
    "many-well": many_well,
    "many-well-32": functools.partial(many_well, 32),
    "many-well-64": functools.partial(many_well, 64),
    "many-well-128": functools.partial(many_well, 128),
    "funnel": neal_funnel,
    "phi4": phi4,
    "phi4-ordered": phi4_ordered,
}


def names() -> tuple[str, ...]:
    """Every name that `get` knows."""
    return tuple(_BUILDERS)


def get(name: str, **options: Any) -> Target:
    """The target of that name.

    Args:
        name: one of `names()`.
        options: what the family leaves open, for instance `dim`.
    """
    if name not in _BUILDERS:
        raise ValueError(f"got target {name!r}, expected one of targets.names(){_hint(name, names())}")
    builder = _BUILDERS[name]
    accepted = tuple(inspect.signature(builder).parameters)
    for option in options:
        if option not in accepted:
            known = f"one of {', '.join(accepted)}" if accepted else "none"
            raise ValueError(f"got option {option!r} for target {name!r}, expected {known}{_hint(option, accepted)}")
    return builder(**options)


def _hint(got: str, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(got, known, n=1, cutoff=0.4)
    return f"; did you mean {nearest[0]!r}?" if nearest else f": {', '.join(known)}" * bool(known)
