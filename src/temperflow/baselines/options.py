"""Refuse bad options before any compute is spent."""

import numpy as np

from temperflow.baselines.ladder import Ladder


def require_counts(**options: tuple[int, int]) -> None:
    """Each option as (value, smallest allowed)."""
    for name, (value, least) in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}; expected an integer of at least {least}.")


def require_fraction(fits: bool, **options: float) -> None:
    """Refuse the one option given unless it fits."""
    for name, value in options.items():
        if not fits:
            raise ValueError(f"{name} is {value!r}; expected a number between 0 and 1.")


def require_ladder(ladder: Ladder, dim: int) -> None:
    """A ladder that climbs from 0 to 1, with one positive step a level and coordinate."""
    s, step = np.asarray(ladder.s), np.asarray(ladder.step)
    if s.size < 2 or s[0] != 0 or s[-1] != 1 or not np.all(np.diff(s) > 0):
        raise ValueError(f"the ladder is {s}; expected numbers rising from 0 to 1.")
    if step.shape != (s.size - 1, dim):
        raise ValueError(
            f"the steps have shape {step.shape}; expected one row for each level above the source "
            f"and one column a coordinate, {(s.size - 1, dim)}."
        )
    if not (np.all(np.isfinite(step)) and np.all(step > 0)):
        raise ValueError("the steps must be finite and positive.")
