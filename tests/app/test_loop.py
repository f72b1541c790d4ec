"""What the host does between epochs: trouble, clocks, signals; with scripted epochs and one real case."""

import signal
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import pytest

from temperflow.app import loop as module
from temperflow.app.checkpoint import Checkpoints
from temperflow.app.errors import Interrupted, NumericalError
from temperflow.app.events import EventLog, read
from temperflow.app.loop import Journey, Loop
from temperflow.app.signals import StopRequest
from temperflow.app.stepper import Anchor, Epoch, Stepper

FIELDS = {"loss": 1.0, "residual": 1.0, "skipped": 0, "dropped": 0, "ess": 1.0}


class Scripted(Stepper):
    """Epochs that do nothing but count, and what they are told to show.

    `trouble` maps (epoch, patience) to what that epoch shows.
    """

    def __init__(self, trouble=None, clock=None, takes=0.0):
        self.trouble, self.clock, self.takes, self.chunks = trouble or {}, clock, takes, []

    def run(self, state, count):
        self.chunks.append(count)
        first, patience = int(state.epoch) + 1, float(state.patience)
        epochs = []
        for number in range(first, first + count):
            shown = dict(self.trouble.get((number, patience), {}))
            finite = shown.pop("finite", True)
            epochs.append(Epoch(number, {**FIELDS, **shown}, finite))
        if self.clock:
            self.clock.now += self.takes * count
        return eqx.tree_at(lambda s: s.epoch, state, state.epoch + count), epochs


@pytest.fixture(scope="module")
def real(tiny):
    """A trainer with ten walkers, nine steps and twenty updates, and its first state."""
    built, _, _ = tiny
    trainer = replace(built.trainer, walkers=10, steps=9, iterations=20, followers=0)
    return trainer, trainer.start(built.model, 0)


@pytest.fixture
def looped(tmp_path, real):
    """Run scripted epochs; the log's events, the checkpoints and what was raised."""
    trainer, start = real

    def go(stepper, epochs=40, every=30.0, number=None):
        Stepper.__init__(stepper, trainer, start)
        checkpoints = Checkpoints(tmp_path / "checkpoints", "run")
        stop = StopRequest(notify=False)
        stop.number = number
        raised = None
        with EventLog(tmp_path / "events.jsonl") as log:
            loop = Loop(trainer, stepper, lambda: start, epochs, checkpoints, log, 100, every, "DIR")
            try:
                loop.run(Journey(start, Anchor.of(start)), stop)
            except (NumericalError, Interrupted) as error:
                raised = error
        return read(tmp_path / "events.jsonl"), checkpoints.names(), raised

    return go


def of_kind(events, kind):
    return [event for event in events if event["kind"] == kind]


def test_every_epoch_is_told_with_its_calls(looped):
    events, names, raised = looped(Scripted())
    assert raised is None
    # 100 before training; then ten walkers, once at the start and twice in each of nine steps.
    assert [(e["epoch"], e["energy_calls"]) for e in of_kind(events, "epoch")] == [
        (n, 100 + 190 * n) for n in range(1, 41)
    ]
    assert names[-1] == "epoch-00000040"


TROUBLE = {
    "finite": {"finite": False},
    "skipped": {"skipped": 3},
    "dropped": {"dropped": 91},
}
NO_TROUBLE = {"one skipped": {"skipped": 1}, "few skipped": {"skipped": 2}, "half dropped": {"dropped": 50}}


@pytest.mark.parametrize("kind", TROUBLE)
def test_trouble_goes_back_once_with_half_the_patience(looped, kind):
    events, _, raised = looped(Scripted({(23, 1.0): TROUBLE[kind]}))
    assert raised is None
    (back,) = of_kind(events, "rolled_back")
    assert (back["epoch"], back["trouble"], back["patience"]) == (22, 23, 0.5)
    assert [e["epoch"] for e in of_kind(events, "epoch")] == [*range(1, 24), *range(23, 41)]


@pytest.mark.parametrize("kind", NO_TROUBLE)
def test_what_is_dropped_and_counted_is_no_trouble(looped, kind):
    events, _, raised = looped(Scripted({(23, 1.0): NO_TROUBLE[kind]}))
    assert raised is None
    assert not of_kind(events, "rolled_back")


def test_trouble_again_stops_and_keeps_the_last_good_state(looped):
    trouble = {(23, 1.0): {"finite": False}, (31, 0.5): {"finite": False}}
    events, names, raised = looped(Scripted(trouble))
    assert isinstance(raised, NumericalError)
    assert raised.exit_status == 3
    assert "not finite in epoch 31" in str(raised)
    assert "DIR/checkpoints" in str(raised)
    assert of_kind(events, "failed")[0]["kept"] == names
    assert names == ["epoch-00000002"]


def test_where_it_goes_back_to_does_not_depend_on_the_clock(looped, monkeypatch):
    """With checkpoints at every epoch or never, in chunks or one by one."""
    seen = []
    for look_every, share in ((0.0, float("inf")), (10.0, 1e-9)):
        monkeypatch.setattr(module, "LOOK_EVERY", look_every)
        monkeypatch.setattr(module, "COST_SHARE", share)
        events, _, _ = looped(Scripted({(23, 1.0): {"finite": False}}), every=0.0)
        seen.append(of_kind(events, "rolled_back")[-1]["epoch"])
    assert seen == [22, 22]


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.mark.parametrize(("cost", "every", "takes"), [(1.0, 30.0, 2.0), (0.2, 0.0, 2.0), (30.0, 30.0, 40.0)])
def test_checkpoints_cost_under_two_percent(looped, monkeypatch, cost, every, takes):
    """Of a run that is long against the two that every run makes, whatever they cost: one early, one at the end."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)

    def slow(*arguments):
        clock.now += cost
        return 1

    monkeypatch.setattr(Checkpoints, "save", slow)
    events, _, _ = looped(Scripted(clock=clock, takes=takes), epochs=1000, every=every)
    spent = sum(e["cost_seconds"] for e in of_kind(events, "checkpoint"))
    assert of_kind(events, "checkpoint")
    assert spent < 0.02 * clock.now
    monkeypatch.setattr(module, "COST_SHARE", float("inf"))  # without the rule it is more
    before = clock.now
    events, _, _ = looped(Scripted(clock=clock, takes=takes), epochs=200, every=0.0)
    assert len(of_kind(events, "checkpoint")) * cost - spent > 0.02 * (clock.now - before)


def test_short_epochs_are_run_many_at_a_time(looped, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    stepper = Scripted(clock=clock, takes=0.01)
    looped(stepper, epochs=4000)
    assert stepper.chunks[0] == 1
    assert max(stepper.chunks) == 50
    assert len(stepper.chunks) < 100


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_commits_and_says_where(looped, number, status):
    events, names, raised = looped(Scripted(), number=number)
    assert isinstance(raised, Interrupted)
    assert raised.exit_status == status
    assert names == ["epoch-00000001"]
    assert "at epoch 1 of 40" in str(raised)
    assert events[-1]["kind"] == "interrupted"


def test_at_the_last_epoch_a_signal_comes_too_late(looped):
    _, names, raised = looped(Scripted(), epochs=1, number=signal.SIGTERM)
    assert raised is None
    assert names == ["epoch-00000001"]


def test_parameters_that_explode_end_in_a_numerical_error(tiny, tmp_path):
    """The same by real epochs: networks so large that no update is finite."""
    built, stepper, fresh = tiny

    def exploded():
        state = fresh()
        where = lambda s: s.model.control.network.mlp.layers[-1].weight  # noqa: E731
        return eqx.tree_at(where, state, where(state) + 1e30)

    start = exploded()
    journey = Journey(start, Anchor.of(start))
    with EventLog(tmp_path / "events.jsonl") as log:
        checkpoints = Checkpoints(tmp_path / "checkpoints", "run")
        loop = Loop(built.trainer, stepper, fresh, 60, checkpoints, log, 0, 30.0, "DIR")
        with pytest.raises(
            NumericalError, match=r"of 5 updates that would not have been finite|without finite numbers"
        ):
            loop.run(journey, StopRequest(notify=False))
    kinds = [event["kind"] for event in read(tmp_path / "events.jsonl")]
    assert kinds == ["epoch", "rolled_back", "epoch", "failed"]


def test_going_back_restores_all_but_the_buffer(tiny):
    _, stepper, fresh = tiny
    state, _ = stepper.run(fresh(), 3)
    anchor = Anchor.of(state)
    seen = eqx.filter(replace_buffer(state), eqx.is_array)
    seen = [leaf.tobytes() for leaf in leaves_of(seen)]
    later, _ = stepper.run(state, 4)
    back = stepper.rolled_back(anchor, fresh())
    assert int(back.epoch) == 3
    assert int(back.buffer.filled) == 0
    assert float(back.patience) == 0.5
    restored = eqx.tree_at(lambda s: s.patience, back, jnp.ones(()))
    assert [leaf.tobytes() for leaf in leaves_of(eqx.filter(replace_buffer(restored), eqx.is_array))] == seen
    first, _ = stepper.run(back, 1)  # and it can be gone on from, twice
    again, _ = stepper.run(stepper.rolled_back(anchor, fresh()), 1)
    assert [a.tobytes() for a in leaves_of(first)] == [b.tobytes() for b in leaves_of(again)]
    assert int(later.epoch) == 7


def replace_buffer(state):
    return eqx.tree_at(lambda s: s.buffer, state, None)


def leaves_of(tree):
    import jax
    import numpy as np

    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def test_no_epoch_is_traced_twice(tiny):
    _, stepper, fresh = tiny
    state, _ = stepper.run(fresh(), 1)
    count = stepper._advance._cache_size()
    stepper.run(state, 3)
    assert stepper._advance._cache_size() == count == 1
