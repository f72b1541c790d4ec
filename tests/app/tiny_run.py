"""The smallest real run: two dimensions, tempered, a bias that learns, seconds to train."""

import equinox as eqx
import jax
import numpy as np

import temperflow as tflow

# No pilot run, few of everything; rollouts resample and ψ' learns, so that all of the state moves.
OVERRIDES = {
    "path.schedule": "exponential",
    "path.scale": 5.0,
    "path.fading": 1.0,
    "proposal.scale": 4.0,
    "temperature.bias_rate": 0.1,
    "network.width": 16,
    "network.depth": 1,
    "network.position_frequencies": 4,
    "network.time_frequencies": 2,
    "network.temperature_frequencies": 2,
    "training.epochs": 60,
    "training.iterations": 5,
    "training.walkers": 32,
    "training.steps": 8,
    "training.memory": 2,
    "training.batch": 32,
    "training.resample_below": 0.5,
    "sampling.flow": "euler",
    "sampling.flow_steps": 8,
}


def run(out, target="gmm9", seed=0, progress=False, checkpoint_every=0.0, **changes):
    """`fit` with these settings and a few others."""
    overrides = OVERRIDES | {name.replace("__", "."): value for name, value in changes.items()}
    return tflow.fit(
        target,
        "quick",
        out,
        seed,
        overrides=overrides,
        progress=progress,
        checkpoint_every=checkpoint_every,
    )


def arrays_of(sampler):
    """What training decided, as bytes."""
    leaves = jax.tree.leaves(eqx.filter(sampler.model, eqx.is_array))
    bias = sampler.proposal.joint.tempering.confinement.bias
    return b"".join(np.asarray(leaf).tobytes() for leaf in [*leaves, bias])
