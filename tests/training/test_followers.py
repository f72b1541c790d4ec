"""Particles that follow the control alone: where they start, the way they take, and what they cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_run import STEPS, WALKERS, Counter, epoch, small_model, small_trainer

FOLLOWERS = 7
FORWARDS, BACK = 4, 3


@pytest.fixture(scope="module")
def counter():
    return Counter()


@pytest.fixture(scope="module")
def explored(counter):
    """Trainer, model, and the first epoch's locations; leading axes (slices, particles)."""
    trainer = small_trainer(counter=counter, tempered=False, iterations=1, followers=FOLLOWERS)
    model = small_model()
    state, _ = epoch(trainer, trainer.start(model, seed=0))
    return trainer, model, jax.tree.map(lambda leaf: leaf[0], state.buffer.locations)


def steps_of(model, location, columns):
    """Euler steps of the control from each slice to the next of these columns, and where the slices are."""
    t, x = location.t[:, columns], location.x[:, columns]
    velocity = jax.vmap(jax.vmap(lambda t, x: model.control(t, x, jnp.ones(()))))(t, x)
    return x[:-1] + jnp.diff(t, axis=0)[..., None] * velocity[:-1], x[1:]


def test_the_target_is_called_as_often_as_the_trainer_says(explored, counter):
    trainer, _, _ = explored
    jax.effects_barrier()
    walk = 1 + STEPS
    assert counter.calls == trainer.calls_per_epoch == WALKERS * walk + FORWARDS * walk + BACK * STEPS
    assert trainer.locations_per_epoch == (WALKERS + FOLLOWERS) * walk


@pytest.mark.parametrize("columns", [slice(WALKERS, WALKERS + FORWARDS), slice(WALKERS + FORWARDS, None)])
def test_they_take_the_steps_of_the_control_at_temperature_one(explored, columns):
    _, model, location = explored
    # The model that they follow is the average, which before the first update is the model itself.
    predicted, found = steps_of(model, location, columns)
    np.testing.assert_allclose(found, predicted, rtol=1e-5, atol=1e-5)
    assert bool(jnp.all(location.beta[:, columns] == 1.0))
    assert bool(jnp.all(location.valid[:, columns]))


def test_half_go_on_from_the_source_and_half_back_from_where_walkers_ended(explored):
    _, _, location = explored
    onwards, back = location.t[:, WALKERS], location.t[:, -1]
    np.testing.assert_array_equal(onwards, location.t[:, 0])
    np.testing.assert_array_equal(back, onwards[::-1])
    ends = np.asarray(location.x[-1, :WALKERS])
    for start in np.asarray(location.x[0, WALKERS + FORWARDS :]):
        assert np.any(np.all(ends == start, axis=1))
    # The source is N(0, 1): no start of the others is an end of a walker.
    for start in np.asarray(location.x[0, WALKERS : WALKERS + FORWARDS]):
        assert not np.any(np.all(ends == start, axis=1))


def test_only_cold_walkers_are_followed_back():
    """Tempered: hot ends are draws of another density."""
    trainer = small_trainer(iterations=1, followers=64)
    state, _ = epoch(trainer, trainer.start(small_model(), seed=1))
    location = jax.tree.map(lambda leaf: leaf[0], state.buffer.locations)
    ends, beta = np.asarray(location.x[-1, :WALKERS]), np.asarray(location.beta[-1, :WALKERS])
    assert 0.0 < np.mean(beta == 1.0) < 1.0
    for start in np.asarray(location.x[0, WALKERS + 32 :]):
        assert beta[np.all(ends == start, axis=1)] == 1.0
