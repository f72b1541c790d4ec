"""A fresh look at where the walkers go: measured by the verdict, drawn by the report, one program for both."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from temperflow.models import Model
from temperflow.proposals import Proposal, Rollout, rollout

# A ninth of them are cold as a rule: with so many, a share of half of what is due is four standard
# deviations away.
WALKERS = 512


@eqx.filter_jit
def fresh_rollout(key: PRNGKeyArray, proposal: Proposal, model: Model, walkers: int, steps: int) -> Rollout:
    """To t = 1 in equal steps, without resampling.

    Args:
        key: all the randomness.
        proposal: the dynamics.
        model: trained or not.
        walkers: how many.
        steps: time steps.
    """
    return rollout(key, proposal, model, walkers, jnp.linspace(0.0, 1.0, steps + 1))
