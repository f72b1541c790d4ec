"""What is left of a training state when training is over, and how it becomes a sampler again."""

from typing import Any

import equinox as eqx

from temperflow.app import arrays
from temperflow.app.build import Built
from temperflow.sampling import Sampler
from temperflow.training import TrainState


def to_bytes(state: TrainState) -> bytes:
    """The averaged parameters and the bias of ξ, by name: all else follows from the settings."""
    return arrays.to_bytes(_kept(state))


def from_bytes(content: bytes, built: Built, seed: int) -> Sampler:
    """The sampler of these arrays.

    Args:
        content: what `to_bytes` made.
        built: the run's trainer and initial model, for structure.
        seed: of the run.
    """
    like = eqx.filter_eval_shape(built.trainer.start, built.model, seed)
    stored = arrays.from_bytes(content, _kept(like))
    return built.sampler(eqx.tree_at(lambda s: (s.average, s.bias), like, (stored["model"], stored["bias"])))


def _kept(state: TrainState) -> dict[str, Any]:
    return {"model": state.average, "bias": state.bias}
