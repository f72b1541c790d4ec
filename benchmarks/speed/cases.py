"""What is timed: recipes as the product builds them, on the forty modes, with a buffer full of locations."""

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp

from temperflow import targets
from temperflow.app import recipes
from temperflow.app.build import Built, Survey, build
from temperflow.app.config import Config
from temperflow.paths import Cached
from temperflow.targets import Target
from temperflow.training import Buffer, Location, Trainer, TrainState

# The paper's release has 100, 20 and 20 feature outputs, so half as many frequencies: 140 inputs.
PAPER_INPUTS = {
    "network.position_frequencies": 50,
    "network.time_frequencies": 10,
    "network.temperature_frequencies": 10,
}
# A pilot's findings, written down: timing needs a schedule of the usual kind, not this target's own.
SURVEY = Survey(23.0, (0.0, *(10.0 ** (-4.0 + 0.2 * k) for k in range(21))), 0)


@dataclass(frozen=True)
class Case:
    """One recipe at one size, ready to run.

    Args:
        name: what results call it.
        built: the product's own objects.
        state: as before the first epoch, but with a full buffer.
        target: what it samples.
    """

    name: str
    built: Built
    state: TrainState
    target: Target

    @property
    def trainer(self) -> Trainer:
        return self.built.trainer


def configured(name: str) -> Config:
    """The configuration behind a case's name."""
    match name:
        case "paper":
            return recipes.get("paper/ctds").override(PAPER_INPUTS)
        case "paper-splitting":
            return configured("paper").override({"proposal.integrator": "splitting"})
        case _:
            return recipes.get(name)


def case(name: str, overrides: dict[str, object] | None = None, target: Target | None = None) -> Case:
    """`paper` is the continuously tempered row with a learned potential; other names are recipes."""
    target = targets.get("gmm40") if target is None else target
    built = build(configured(name).override(overrides or {}), target, SURVEY)
    state = built.trainer.start(built.model, 0)
    return Case(name, built, eqx.tree_at(lambda s: s.buffer, state, _full(built.trainer, target)), target)


def with_iterations(trainer: Trainer, iterations: int) -> Trainer:
    return replace(trainer, iterations=iterations)


def _full(trainer: Trainer, target: Target) -> Buffer:
    """Locations spread over the domain, all valid: what a step costs does not depend on where they are."""
    shape = (trainer.memory, trainer.steps + 1, trainer.walkers)
    for_t, for_x, for_beta = jax.random.split(jax.random.key(7), 3)
    x = 20.0 * jax.random.normal(for_x, (*shape, target.dim))
    look = jax.jit(lambda x: jax.lax.map(target.energy_and_grad, x, batch_size=min(x.shape[0], 65_536)))
    energy, gradient = look(x.reshape(-1, target.dim))
    location = Location(
        jax.random.uniform(for_t, shape),
        x,
        jax.random.uniform(for_beta, shape, minval=0.2),
        Cached(energy.reshape(shape), gradient.reshape(*shape, target.dim)),
        jnp.ones(shape),
        jnp.ones(shape, bool),
    )
    return Buffer(location, jnp.array(trainer.memory))
