"""An unnormalised pair of hills with everything known, and ways to watch a target being called."""

import jax
import jax.numpy as jnp
import numpy as np

from temperflow.baselines import Ladder
from temperflow.targets import Target

LOG_EVIDENCE = 1.3
SHARES = np.array([0.7, 0.3])
CENTRES = np.array([[-1.2, 0.4], [1.5, -0.3]])
WIDTHS = np.array([0.6, 0.4])


def two_hills():
    """A new target each time: a compiled program knows a target by its function, and mutants need their own."""

    def log_density(x):
        squares = jnp.sum((x[None, :] - jnp.asarray(CENTRES, x.dtype)) ** 2, axis=1)
        widths = jnp.asarray(WIDTHS, x.dtype)
        parts = jnp.log(jnp.asarray(SHARES, x.dtype)) - 2 * jnp.log(widths) - 0.5 * squares / widths**2
        return jax.nn.logsumexp(parts) - np.log(2 * np.pi).item() + LOG_EVIDENCE

    return Target(log_density, dim=2, source_scale=1.5)


def ladder():
    """Coarse on purpose: the identities hold on any ladder."""
    return Ladder(jnp.array([0.0, 0.12, 0.4, 1.0]), jnp.array([[1.5, 1.5], [1.0, 1.0], [0.7, 0.7]]))


def mean_and_error(values):
    values = np.asarray(values, np.float64)
    return values.mean(), values.std(ddof=1) / np.sqrt(values.size)


class Watched:
    """A Gaussian target that counts how often it is traced and how often it is called."""

    def __init__(self, count_calls):
        self.traces, self.calls = 0, 0

        def called(x):
            self.calls += 1

        def log_density(x):
            self.traces += 1
            if count_calls:
                # Without an argument that is batched it would be called once a batch.
                jax.debug.callback(called, x)
            return -2.0 * jnp.sum((x - 0.5) ** 2)

        self.target = Target(log_density, dim=2)

    def settled_calls(self):
        jax.effects_barrier()
        return self.calls
