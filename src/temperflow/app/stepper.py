"""Epochs as one compiled program over arrays alone, its state donated, its findings in two vectors."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from temperflow.training import EpochInfo, Trainer, TrainState


@dataclass(frozen=True)
class Anchor:
    """Where a run in numerical trouble goes back to: everything of a state but its buffer."""

    parts: Any

    @classmethod
    def of(cls, state: TrainState) -> "Anchor":
        """A copy, since the state itself will be donated."""
        return cls(_copy(eqx.filter(_without_buffer(state), eqx.is_array)))


@dataclass(frozen=True)
class Epoch:
    """One epoch as the host sees it.

    Args:
        epoch: its number, the first being 1.
        shown: the fields of `EpochInfo` as plain numbers.
        finite: whether every parameter, and the optimiser's memory of them, still is.
    """

    epoch: int
    shown: dict[str, float | int]
    finite: bool


class Stepper:
    """Runs a trainer's epochs; whoever holds a state given to `run` may not use it again.

    Several epochs are several calls that the device queues up, never one longer program: so the
    numbers cannot depend on how many were asked for at once.

    Args:
        trainer: what to run.
        start: a state of it, for its structure.
    """

    def __init__(self, trainer: Trainer, start: TrainState):
        self._operands, fixed = eqx.partition(trainer, eqx.is_array)
        _, self._rest = eqx.partition(start, eqx.is_array)
        rest = self._rest

        def advance(arrays: Any, operands: Any) -> tuple[Any, tuple[jax.Array, jax.Array, jax.Array]]:
            state, info = eqx.combine(operands, fixed).epoch(eqx.combine(arrays, rest))
            learned = (state.model, state.average, state.optimiser)
            finite = [
                jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(eqx.filter(learned, eqx.is_inexact_array))
            ]
            after = jax.tree.map(_strong, eqx.filter(state, eqx.is_array))
            return after, (*_packed(info), jnp.all(jnp.stack(finite)))

        self._advance = jax.jit(advance, donate_argnums=0)

    def run(self, state: TrainState, count: int) -> tuple[TrainState, list[Epoch]]:
        """`count` epochs, one wait at the end."""
        arrays, _ = eqx.partition(state, eqx.is_array)
        first, packed = int(state.epoch) + 1, []
        for _ in range(count):
            arrays, shown = self._advance(arrays, self._operands)
            packed.append(shown)
        epochs = [Epoch(first + i, *_unpacked(*each)) for i, each in enumerate(jax.device_get(packed))]
        return eqx.combine(arrays, self._rest), epochs

    def rolled_back(self, anchor: Anchor, fresh: TrainState) -> TrainState:
        """The anchor's state with half the patience and the buffer of `fresh`, which is empty."""
        kept = eqx.combine(_copy(anchor.parts), _without_buffer(self._rest))
        state = eqx.tree_at(lambda s: s.buffer, kept, fresh.buffer, is_leaf=lambda leaf: leaf is None)
        return eqx.tree_at(lambda s: s.patience, state, 0.5 * state.patience)


def owned(state: TrainState) -> TrainState:
    """The state in buffers that nothing else holds and in the dtypes an epoch returns, ready to be donated."""
    arrays, rest = eqx.partition(state, eqx.is_array)
    return eqx.combine(jax.tree.map(_strong, _copy(arrays)), rest)


def _without_buffer(state: TrainState) -> TrainState:
    return eqx.tree_at(lambda s: s.buffer, state, None, is_leaf=lambda leaf: leaf is None)


def _copy(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), tree)


def _strong(leaf: jax.Array) -> jax.Array:
    """Without the weak type of a Python number, which would make the second epoch a new program."""
    return jax.lax.convert_element_type(leaf, leaf.dtype)


def _names() -> tuple[list[str], list[str]]:
    """Fields that are real numbers, and fields that are counts."""
    counts = ["resampled", "dropped", "skipped"]
    return [name for name in EpochInfo.__dataclass_fields__ if name not in counts], counts


def _packed(info: EpochInfo) -> tuple[jax.Array, jax.Array]:
    reals, counts = _names()
    return (
        jnp.stack([getattr(info, name) for name in reals]),
        jnp.stack([getattr(info, name) for name in counts]),
    )


def _unpacked(reals: np.ndarray, counts: np.ndarray, finite: np.ndarray) -> tuple[dict[str, float | int], bool]:
    named_reals, named_counts = _names()
    # Seven digits are all that a float32 has.
    shown = {name: float(f"{value:.7g}") for name, value in zip(named_reals, reals, strict=True)}
    return {**shown, **dict(zip(named_counts, counts.tolist(), strict=True))}, bool(finite)
