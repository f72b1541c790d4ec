"""Several seeds of one run as one program: their states are stacked, and an epoch is mapped over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from temperflow.app.build import Built, Survey, build
from temperflow.app.config import Config
from temperflow.app.stepper import owned
from temperflow.sampling import Sampler
from temperflow.targets import Target
from temperflow.training import EpochInfo, TrainState


@dataclass(frozen=True)
class Look:
    """One epoch of all seeds as the host sees it; leading axis seeds.

    Args:
        info: the fields of `EpochInfo`.
        finite: whether each seed's parameters, and the optimiser's memory of them, still are.
    """

    info: dict[str, np.ndarray]
    finite: np.ndarray


class Ensemble:
    """Runs the epochs of several seeds side by side.

    Each seed has the initial parameters and the streams of random numbers that `fit` with that
    seed has. What may differ is rounding: matrix products of a batch of seeds may add in another
    order. Over an epoch that is the last digits; over a training, which doubles small differences
    many times, it makes another run with the same statistics. The pilot's survey, where a recipe
    has one, is the batch's and not each seed's own.

    Args:
        config: all settings.
        target: what to sample.
        survey: the pilot's findings.
        seeds: of the runs.
    """

    def __init__(self, config: Config, target: Target, survey: Survey | None, seeds: Sequence[int]):
        self.built: list[Built] = [build(config, target, survey, seed) for seed in seeds]
        self.seeds = tuple(seeds)
        self.trainer = self.built[0].trainer
        operands, fixed = eqx.partition(self.trainer, eqx.is_array)
        _, rest = eqx.partition(self._start(0), eqx.is_array)

        def advance(arrays: Any, operands: Any) -> tuple[Any, tuple[EpochInfo, jax.Array]]:
            state, info = eqx.combine(operands, fixed).epoch(eqx.combine(arrays, rest))
            learned = eqx.filter((state.model, state.average, state.optimiser), eqx.is_inexact_array)
            finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(learned)])
            return jax.tree.map(_strong, eqx.filter(state, eqx.is_array)), (info, jnp.all(finite))

        self._operands, self._rest = operands, rest
        self._advance = jax.jit(jax.vmap(advance, in_axes=(0, None)), donate_argnums=0)

    def start(self) -> TrainState:
        """The states before the first epoch, stacked."""
        each = [eqx.filter(self._start(index), eqx.is_array) for index in range(len(self.seeds))]
        return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *each), self._rest)

    def run(self, states: TrainState, count: int) -> tuple[TrainState, list[Look]]:
        """`count` epochs, one wait at the end; whoever holds the states given may not use them again."""
        arrays, _ = eqx.partition(states, eqx.is_array)
        told = []
        for _ in range(count):
            arrays, shown = self._advance(arrays, self._operands)
            told.append(shown)
        looks = [Look(dict(vars(info)), finite) for info, finite in jax.device_get(told)]
        return eqx.combine(arrays, self._rest), looks

    def one(self, states: TrainState, index: int) -> TrainState:
        """One seed's state."""
        return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, states)

    def sampler(self, states: TrainState, index: int) -> Sampler:
        """One seed's sampler."""
        return self.built[index].sampler(self.one(states, index))

    def _start(self, index: int) -> TrainState:
        return owned(self.trainer.start(self.built[index].model, self.seeds[index]))


def _strong(leaf: jax.Array) -> jax.Array:
    """Without the weak type of a Python number, which would make the second epoch a new program."""
    return jax.lax.convert_element_type(leaf, leaf.dtype)
