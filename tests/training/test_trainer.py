"""An epoch of training: what it calls, what it traces, what it keeps, what it learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_run import COUNTER, STEPS, WALKERS, Counter, OverflowingLoss, epoch, shared, small_model, small_trainer

from temperflow.models import ExactDivergence
from temperflow.training.trainer import BATCH


def arrays_of(tree):
    return jax.tree.leaves(eqx.filter(tree, eqx.is_array))


def assert_same(left, right):
    for one, other in zip(arrays_of(left), arrays_of(right), strict=True):
        np.testing.assert_array_equal(one, other)


def differ(left, right):
    return any(not np.array_equal(one, other) for one, other in zip(arrays_of(left), arrays_of(right), strict=True))


def all_finite(tree):
    return all(np.all(np.isfinite(leaf)) for leaf in arrays_of(tree))


def counted(trainer, counter, epochs):
    """Target calls an epoch, and traces after each."""
    state, traces, before = trainer.start(small_model(), seed=0), [], counter.calls
    for _ in range(epochs):
        state, _ = epoch(trainer, state)
        traces.append(counter.traces)
    jax.effects_barrier()
    return (counter.calls - before) / epochs, traces


def test_updates_make_no_target_call_and_nothing_is_traced_twice():
    trainer = shared()
    calls, traces = counted(trainer, COUNTER, epochs=3)
    assert trainer.calls_per_epoch == WALKERS * (1 + 2 * STEPS)
    assert calls == trainer.calls_per_epoch
    assert traces[0] > 0
    assert traces[1:] == traces[:-1]


class CallingLoss(OverflowingLoss):
    """The mutant that looks at the target again during an update."""

    target: eqx.Module | None = None

    def __call__(self, key, model, batch, continuum):
        loss, squares = super().__call__(key, model, batch, continuum)
        return loss + 0.0 * jnp.mean(jax.vmap(self.target.log_density)(batch.x)), squares


def test_a_loss_that_calls_the_target_is_caught():
    counter = Counter()
    trainer = small_trainer(counter=counter, tempered=False, iterations=2)
    calls, traces = counted(trainer, counter, epochs=2)
    assert calls == trainer.calls_per_epoch == WALKERS * (1 + STEPS)
    mutant = CallingLoss(ExactDivergence(), target=trainer.proposal.target)
    calls, more = counted(eqx.tree_at(lambda t: t.loss, trainer, mutant), counter, epochs=1)
    assert calls > trainer.calls_per_epoch
    assert more[-1] > traces[-1]  # another trainer is another program, and the counter says so


def test_same_seed_same_bits_and_another_seed_others():
    def two_epochs(seed):
        trainer = shared()
        state, _ = epoch(trainer, trainer.start(small_model(), seed))
        return epoch(trainer, state)[0]

    assert_same(two_epochs(3), two_epochs(3))
    assert differ(two_epochs(3).model, two_epochs(4).model)


def test_state_counts_itself():
    trainer = shared()
    state, _ = epoch(trainer, trainer.start(small_model(), seed=0))
    state, info = epoch(trainer, state)
    assert (int(state.epoch), int(state.iteration), int(state.skipped)) == (2, 2 * trainer.iterations, 0)
    assert (int(state.buffer.filled), int(info.dropped), float(info.horizon)) == (2, 0, 1.0)
    assert differ(state.model, state.average)


def test_updates_are_those_of_a_plain_loop_over_the_tree():
    """The epoch works on one vector and draws its places in advance; optax on the tree of arrays does not."""
    trainer = small_trainer(tempered=False, iterations=6)
    start = trainer.start(small_model(), seed=2)
    state, _ = epoch(trainer, start)
    optimiser, continuum = trainer.optimiser, trainer.proposal.joint.continuum

    @eqx.filter_jit
    def update(model, memory, batch, key):
        change = eqx.filter_grad(lambda model: trainer.loss(key, model, batch, continuum)[0])(model)
        with jax.numpy_dtype_promotion("standard"):
            change, memory = optimiser.update(change, memory, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, change), memory

    model = average = start.model
    memory = optimiser.init(eqx.filter(model, eqx.is_inexact_array))
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(2), 0), BATCH)
    for index in range(trainer.iterations):
        for_batch, for_loss = jax.random.split(jax.random.fold_in(key, index))
        model, memory = update(model, memory, state.buffer.sample(for_batch, trainer.batch), for_loss)
        share = (1 + index) / (10 + index)  # of the average so far, by the formula and not by the code
        average = jax.tree.map(
            lambda old, new, share=share: share * old + (1 - share) * new if eqx.is_inexact_array(old) else old,
            average,
            model,
        )
    for found, expected in ((state.model, model), (state.average, average)):
        moved = distance(expected, start.model)
        assert moved > 0.05
        assert distance(found, expected) < 1e-4 * moved


def distance(left, right):
    pairs = zip(arrays_of(left), arrays_of(right), strict=True)
    return float(np.sqrt(sum(np.sum((np.asarray(one) - np.asarray(other)) ** 2) for one, other in pairs)))


def test_a_skipped_update_leaves_everything_as_it_was():
    trainer = shared(overflows=1.0)
    start = trainer.start(small_model(), seed=0)
    state, info = epoch(trainer, start)
    assert int(state.skipped) == int(info.skipped) == trainer.iterations
    assert_same(state.model, start.model)
    assert_same(state.average, start.average)
    assert_same(state.optimiser, start.optimiser)
    assert int(state.iteration) == trainer.iterations  # tried, all the same


def test_good_updates_between_skipped_ones_are_made():
    trainer = shared(overflows=0.5)
    start = trainer.start(small_model(), seed=0)
    state, _ = epoch(trainer, start)
    assert 3 <= int(state.skipped) <= trainer.iterations - 3
    assert differ(state.model, start.model)
    assert all_finite((state.model, state.average, state.optimiser))
    # Adam's own count is of the updates it has seen.
    counts = [int(leaf) for leaf in arrays_of(state.optimiser) if leaf.dtype == jnp.int32 and leaf.ndim == 0]
    assert set(counts) == {trainer.iterations - int(state.skipped)}


@pytest.mark.parametrize(("share", "failure"), [(0.001, jnp.nan), (0.01, -jnp.inf), (0.05, jnp.nan), (0.01, jnp.inf)])
def test_holes_in_the_target_are_dropped_and_counted(share, failure):
    trainer, whole = shared(holes=share, failure=failure), shared()
    state, info = epoch(trainer, trainer.start(small_model(), seed=1))
    locations = jax.tree.map(lambda leaf: leaf[0], state.buffer.locations)
    invalid = ~np.asarray(locations.valid)
    assert int(info.dropped) == invalid.sum()
    assert int(info.skipped) == 0
    assert all_finite((state.model, state.average, locations))
    assert not np.any(np.asarray(locations.weight)[invalid])
    # The same noise without the holes: a walker is lost at the first hole it looks into, no sooner,
    # and stays lost, because nothing resamples here. Up to then it goes the same way.
    healthy = epoch(whole, whole.start(small_model(), seed=1))[0].buffer.locations.x[0]
    holes = np.asarray(jax.vmap(jax.vmap(trainer.proposal.target.log_density.in_hole))(healthy))
    lost_at_the_latest = np.maximum.accumulate(holes, axis=0)
    assert np.all(invalid[lost_at_the_latest])
    assert np.all(np.diff(invalid.astype(int), axis=0) >= 0)
    np.testing.assert_array_equal(np.asarray(locations.x)[~invalid], np.asarray(healthy)[~invalid])
    # Two looks a step, of which the recorded place is one: about as many again are lost in between.
    first = lost_at_the_latest[-1].sum()
    assert first <= invalid[-1].sum() <= max(4 * first, 5)
    assert share == 0.001 or invalid.sum() > 0


def test_training_drives_the_residual_down():
    """Not a statistical test: the untrained residual is of order one, and a tenth of it is asked for.

    The modes touch. Further apart they leave a residual that no network can learn away: their shares
    go as 0.3 and 0.7 to the power s, and what would carry mass from one to the other through nothing
    is a control in the thousands.
    """
    trainer = shared(centre=1.0)
    state, residuals = trainer.start(small_model(), seed=0), []
    for _ in range(100):
        state, info = epoch(trainer, state)
        residuals.append(float(info.residual))
    untrained, _ = epoch(shared(overflows=1.0, centre=1.0), trainer.start(small_model(), seed=5))
    assert residuals[-1] < 0.1 * untrained_residual(trainer, untrained)
    assert residuals[-1] < 0.3 * residuals[1]
    assert np.isfinite(float(info.loss))
    # A normalised target: F(1, 1) is zero. A path whose derivative is wrong at its very end shows here first.
    assert abs(float(info.free_energy)) < 0.03


def untrained_residual(trainer, state):
    batch = state.buffer.sample(jax.random.key(1), 1024)
    _, squares = eqx.filter_jit(trainer.loss)(jax.random.key(2), state.model, batch, trainer.proposal.joint.continuum)
    return float(jnp.sqrt(jnp.nanmean(squares)))
