"""What training carries from epoch to epoch, and what an epoch shows."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int

from temperflow.models import Model
from temperflow.training.buffer import Buffer


class TrainState(eqx.Module):
    """All that changes while training. No key: randomness is counted, from the seed and the epoch.

    Args:
        model: the parameters being trained.
        average: their exponential moving average, which is what gets sampled from.
        optimiser: optax's state, of the parameters as one vector.
        buffer: the stored locations.
        bias: the adaptive part of ψ' at its knots.
        seed: what all randomness derives from.
        epoch: epochs done.
        iteration: updates tried.
        skipped: updates not made because they would not have been finite.
        patience: factor on the learning rate; halved when a run is rolled back.

    >>> import equinox as eqx, jax, jax.numpy as jnp, optax
    >>> from temperflow.models import Control, ExactDivergence, FourierFeatures, FreeEnergy, Network
    >>> from temperflow.paths import Continuum, Identity
    >>> from temperflow.proposals import JointDensity, Transport
    >>> from temperflow.targets import Target
    >>> from temperflow.training import Curriculum, Loss, Trainer
    >>> time = FourierFeatures(jax.random.key(0), dim=1, count=2, spread=1.0, raw_scale=1.0)
    >>> position = FourierFeatures(jax.random.key(3), dim=2, count=0, spread=1.0, raw_scale=1.0)
    >>> control = Control(Network(jax.random.key(1), 2, 4, 1, position, time), output_scale=1.0)
    >>> model = Model(control, FreeEnergy(Network(jax.random.key(2), 1, 4, 1, time=time)), potential=None)
    >>> target = Target(lambda x: -jnp.sum(x**2), dim=2)
    >>> proposal = Transport(JointDensity(Continuum(2, 1.0, Identity()), tempering=None), target)
    >>> trainer = Trainer(
    ...     proposal, Loss(ExactDivergence()), optax.adam(1e-3), Curriculum(),
    ...     walkers=8, steps=4, memory=3, iterations=100, batch=16,
    ... )
    >>> state = trainer.start(model, seed=0)
    >>> bool(eqx.tree_equal(state.model, state.average)), int(state.epoch), int(state.skipped)
    (True, 0, 0)
    >>> state.buffer.locations.x.shape  # room for three rollouts of five slices of eight walkers
    (3, 5, 8, 2)
    """

    model: Model
    average: Model
    optimiser: Any
    buffer: Buffer
    bias: Float[Array, " knots"]
    seed: Int[Array, ""]
    epoch: Int[Array, ""]
    iteration: Int[Array, ""]
    skipped: Int[Array, ""]
    patience: Float[Array, ""]


class EpochInfo(eqx.Module):
    """What an epoch showed. Residuals are the averaged parameters'; loss and norm are over its updates.

    Args:
        loss: mean over the updates.
        residual: root mean square at 1024 stored locations or a batch, whichever is more.
        residual_tail: that of which a hundredth are beyond.
        gradient_norm: mean over the updates, before any clipping.
        horizon: how far in time the rollout went.
        ess: effective share of its path weights.
        log_evidence: log Z by them, where the horizon is 1.
        free_energy: $F(1, 1)$, the network's own belief about $-\\log Z$.
        cold_share: share of its walkers that ended at temperature one.
        hot_share: the same at the hottest.
        resampled: how many times it resampled.
        dropped: locations that were not finite.
        skipped: updates not made so far, in all epochs.

    >>> import jax.numpy as jnp
    >>> numbers = dict.fromkeys(("loss", "residual", "residual_tail", "gradient_norm", "cold_share", "hot_share"), 0.1)
    >>> numbers |= {"horizon": 1.0, "ess": 0.8, "log_evidence": 2.03, "free_energy": -2.0}
    >>> counts = dict.fromkeys(("resampled", "dropped", "skipped"), jnp.array(0))
    >>> info = EpochInfo(**{name: jnp.array(value) for name, value in numbers.items()}, **counts)
    >>> bool(abs(info.log_evidence + info.free_energy) < 0.1)  # the walkers and the network agree on log Z
    True
    """

    loss: Float[Array, ""]
    residual: Float[Array, ""]
    residual_tail: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    horizon: Float[Array, ""]
    ess: Float[Array, ""]
    log_evidence: Float[Array, ""]
    free_energy: Float[Array, ""]
    cold_share: Float[Array, ""]
    hot_share: Float[Array, ""]
    resampled: Int[Array, ""]
    dropped: Int[Array, ""]
    skipped: Int[Array, ""]
