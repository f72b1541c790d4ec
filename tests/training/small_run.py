"""A small two-mode problem in one dimension that can be made to fail, and a trainer for it.

Compiling an epoch takes longer than running a hundred, so that everything a test may want to
change is data: one program serves them all.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from temperflow.models import Control, ExactDivergence, FourierFeatures, FreeEnergy, Model, Network
from temperflow.paths import Confinement, Continuum, Exponential, SmoothStep, TemperatureMap, Widening
from temperflow.proposals import JointDensity, Langevin, Rates, Splitting, Tempering, Transport
from temperflow.targets.base import Target
from temperflow.targets.mixtures import GaussianMixture
from temperflow.training import Curriculum, Loss, Trainer

WALKERS, STEPS = 64, 16


class Counter:
    """How often a log-density was traced, and at how many points it was run."""

    def __init__(self):
        self.traces = self.calls = 0

    def seen(self, x):
        self.calls += 1


class HoleyModes(eqx.Module):
    """Two modes at -`centre` and `centre` with shares 0.3 and 0.7, and `failure` at a `share` of all places: a mesh."""

    share: jax.Array
    failure: jax.Array
    centre: jax.Array
    counter: Counter = eqx.field(static=True)

    def __call__(self, x):
        self.counter.traces += 1
        jax.debug.callback(self.counter.seen, x)
        centres = self.centre * jnp.array([[-1.0], [1.0]])
        pair = GaussianMixture(centres, jnp.asarray(0.5), jnp.log(jnp.array([0.3, 0.7])))
        return jnp.where(self.in_hole(x), self.failure, pair.log_density(x))

    def in_hole(self, x):
        return jnp.mod(jnp.abs(x[0]) * 7919.0, 1.0) < self.share


class OverflowingLoss(Loss):
    """At a share of the updates, energies so large that a squared residual leaves the numbers."""

    share: jax.Array = eqx.field(default_factory=lambda: jnp.asarray(0.0))

    def __call__(self, key, model, batch, continuum):
        huge = jnp.where(jax.random.uniform(jax.random.fold_in(key, 99)) < self.share, 1e30, 0.0)
        batch = eqx.tree_at(lambda b: b.cached.energy, batch, batch.cached.energy + huge)
        return super().__call__(key, model, batch, continuum)


def small_model(seed=0, width=32):
    keys = iter(jax.random.split(jax.random.key(seed), 7))

    def features(count, spread):
        return FourierFeatures(next(keys), 1, count, spread, 2.0)

    control = Network(next(keys), 1, width, 2, features(8, 0.2), features(4, 0.5), features(2, 0.5))
    free = Network(next(keys), 1, 16, 1, None, features(4, 0.5), features(2, 0.5))
    return Model(Control(control, 4.0), FreeEnergy(free), None)


def small_trainer(holes=0.0, failure=jnp.nan, overflows=0.0, centre=2.0, counter=None, tempered=True, **options):
    """Continuously tempered, or by transport alone, which compiles in a third of the time."""
    modes = HoleyModes(jnp.asarray(holes), jnp.asarray(failure), jnp.asarray(centre), counter or Counter())
    target = Target(modes, dim=1)
    path = Continuum(1, 1.0, Exponential(rate=3.0, start=0.2), Widening(2.5, SmoothStep(0.4)))
    if tempered:
        walls = Confinement(edge=2.0, sharpness=4.0, bias=jnp.zeros(5))
        joint = JointDensity(path, Tempering(TemperatureMap(0.2, 0.5, 1.5), walls))
        proposal = Langevin(joint, target, Rates(1.0, 2.0, 5.0, 2.0), Splitting())
    else:
        proposal = Transport(JointDensity(path, None), target)
    settings = {
        "loss": OverflowingLoss(ExactDivergence(), share=jnp.asarray(overflows)),
        "optimiser": _adam(),
        "curriculum": Curriculum(),
        "walkers": WALKERS,
        "steps": STEPS,
        "memory": 2,
        "iterations": 25,
        "batch": 128,
    }
    return Trainer(proposal, **{**settings, **options})


@functools.cache
def _adam():
    """One object: it is compared by identity, and another would mean another program."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


COUNTER = Counter()
shared = functools.partial(small_trainer, counter=COUNTER)


@eqx.filter_jit
def epoch(trainer, state):
    return trainer.epoch(state)
