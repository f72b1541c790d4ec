"""Targets that return NaN or infinity here and there: usable weights, exact counts, nothing poisoned."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact_gaussian
from temperflow.models import Control, Model
from temperflow.paths import SmoothStep
from temperflow.proposals import (
    Langevin,
    MetropolisAdjusted,
    Overdamped,
    Rates,
    Splitting,
    Transport,
    Walker,
    rollout,
    time_grid,
)
from temperflow.targets.base import Target

COUNT, STEPS = 4000, 8
TIMES = time_grid(STEPS, jnp.ones(()), jnp.ones(()))
BROKEN = (np.nan, np.inf, -np.inf)


def is_broken(x, rate, xp):
    """Fine stripes that cover a share `rate` of the plane, evenly wherever a smooth density is."""
    stripes = 40.0 * x[..., 0] + 23.0 * x[..., 1]
    return stripes - xp.floor(stripes) < rate


class Spoiled(eqx.Module):
    path: exact_gaussian.GaussianPath
    rate: jax.Array
    value: jax.Array

    def log_density(self, x):
        return jnp.where(is_broken(x, self.rate, jnp), self.value, self.path.log_density(x))


class Wind(Control):
    """A constant velocity: where every walker will be is known beforehand."""

    network: None = None
    output_scale: float = 1.0
    velocity: jax.Array | None = None

    def __call__(self, t, x, beta):
        return self.velocity


PATH = exact_gaussian.gaussian_path(2, 1.0, SmoothStep(1.0))
run = eqx.filter_jit(rollout)


def spoiled_target(rate, value):
    spoiled = Spoiled(PATH, jnp.asarray(rate, jnp.float32), jnp.asarray(value, jnp.float32))
    return Target(spoiled.log_density, dim=2)


@pytest.mark.parametrize("value", BROKEN, ids=str)
@pytest.mark.parametrize("rate", [0.001, 0.01, 0.05])
def test_a_walker_dies_where_its_known_track_first_meets_a_broken_energy(rate, value):
    proposal = Transport(exact_gaussian.joint_of(PATH, tempered=False), spoiled_target(rate, value))
    velocity = jnp.array([0.9, -0.4])
    model = Model(Wind(velocity=velocity), exact_gaussian.ExactFreeEnergy(path=PATH), None)
    result = run(jax.random.key(4), proposal, model, COUNT, TIMES)
    walkers = result.walkers
    sound = run(jax.random.key(4), proposal_without_breaks(proposal), model, COUNT, TIMES).walkers

    track = np.asarray(sound.x)
    broken = is_broken(track, np.float32(rate), np)
    dead = np.cumsum(broken, axis=0) > 0
    # Rounding decides at a stripe's edge; nearly every walker is far from one.
    status = np.asarray(walkers.status)
    assert np.mean(status != dead) < 2e-3
    agree = np.all(status == dead, axis=0)
    assert np.array_equal(np.isneginf(np.asarray(walkers.log_weight)), status == 1)
    assert 0 < status[0].sum() < status[-1].sum()
    assert np.mean(status[-1]) == pytest.approx(1.0 - (1.0 - rate) ** (STEPS + 1), rel=0.35)

    # The dead stay where they last were well; the living never notice.
    alive = agree & (status[-1] == 0)
    np.testing.assert_array_equal(np.asarray(walkers.log_weight)[:, alive], np.asarray(sound.log_weight)[:, alive])
    for now in range(1, STEPS + 1):
        stuck = agree & (status[now] == 1)
        np.testing.assert_array_equal(np.asarray(walkers.x)[now, stuck], np.asarray(walkers.x)[now - 1, stuck])
    numbers = eqx.tree_at(lambda w: w.log_weight, walkers, jnp.zeros(()))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(numbers))


def proposal_without_breaks(proposal):
    return eqx.tree_at(lambda p: p.target.log_density.__self__.rate, proposal, jnp.zeros(()))


RATES = Rates(scale=1.0, damping=1.5, xi_scale=1.5, xi_damping=1.0)


@pytest.mark.parametrize(("kind", "threshold"), [("overdamped", 0.0), ("tempered", 0.9)])
def test_weights_stay_usable_and_the_evidence_errs_low_by_no_more_than_the_share_lost(kind, threshold):
    """Six evidences, four standard errors of slack each: a false alarm in 0.04 % of all seeds."""
    model = exact_gaussian.exact_model(PATH, speed=0.5)
    joint = exact_gaussian.joint_of(PATH, kind == "tempered")
    for rate in (0.001, 0.01, 0.05):
        target = spoiled_target(rate, np.nan)
        tempered = kind == "tempered"
        proposal = Langevin(joint, target, RATES, Splitting()) if tempered else Overdamped(joint, target, diffusion=0.7)
        result = run(jax.random.key(9), proposal, model, COUNT, TIMES, threshold)
        log_weight = np.asarray(result.walkers.log_weight)
        assert not np.any(np.isnan(log_weight) | np.isposinf(log_weight))
        assert np.mean(np.isfinite(log_weight[-1])) > 1.0 - 2.2 * (2 * STEPS + 1) * rate
        cold = np.asarray(joint.cold_log_weight(result.last.log_weight, result.last.xi))
        _, error = exact_gaussian.mean_weight(cold)
        off = float(result.log_evidence(proposal, model)) + float(PATH.free_energy(jnp.ones(()), jnp.ones(())))
        if threshold > 0.0:
            assert int(result.resampled) > 0 or rate < 0.05
            # Resampled at any time: its walkers are no longer independent, so double the error.
            error = 2.0 * error
        assert -2.2 * (2 * STEPS + 1) * rate - 4.0 * error < off < 4.0 * error, (rate, off, error)


def test_a_metropolis_move_into_infinite_energy_is_a_rejection():
    """Hard walls: the chain stays inside, alive, and samples what is left of the density there."""

    def boxed(x):
        return jnp.where(jnp.all(jnp.abs(x) < 1.0), 0.0, -jnp.inf)

    class Boxed(MetropolisAdjusted):
        def init(self, key):
            x, momentum, xi, xi_momentum = self.joint.initial(key)
            start = 0.5 * jnp.tanh(x)
            return Walker(start, momentum, xi, xi_momentum, self.look(start), jnp.zeros(()), jnp.asarray(0))

    joint = exact_gaussian.joint_of(exact_gaussian.gaussian_path(2, 1.0, Still(1.0)), tempered=False)
    proposal = Boxed(Transport(joint, Target(boxed, dim=2)), step_size=0.8, moves=2)
    model = Model(Wind(velocity=jnp.zeros(2)), exact_gaussian.ExactFreeEnergy(path=PATH), None)
    last = run(jax.random.key(6), proposal, model, 2000, jnp.linspace(0.0, 1.0, 31)).last
    assert np.all(np.asarray(last.status) == 0)
    assert np.all(np.abs(np.asarray(last.x)) < 1.0)
    # Uniform on the box: variance 1/3, known to 2.8 % from 4000 numbers.
    assert np.var(np.asarray(last.x)) == pytest.approx(1.0 / 3.0, rel=0.1)


class Still(SmoothStep):
    """A schedule that is always at its end: the target itself, at every time."""

    def __call__(self, t):
        return jnp.ones_like(t)
