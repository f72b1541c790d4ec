"""Stopped at any moment in any way, a run ends with the very bits it would have ended with."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_run

import temperflow as tflow
from temperflow.app import events, shipped, train
from temperflow.app.checkpoint import Checkpoints
from temperflow.app.loop import Journey
from temperflow.app.signals import StopRequest
from temperflow.app.stepper import Anchor

HERE = Path(__file__).parent
EPOCHS = tiny_run.OVERRIDES["training.epochs"]


def same_draws(one, other):
    first, second = one.sample(50, seed=3), other.sample(50, seed=3)
    return all(
        np.asarray(getattr(first, name)).tobytes() == np.asarray(getattr(second, name)).tobytes()
        for name in ("x", "log_weight")
    )


class Process:
    """A run of its own; what it says goes to a file."""

    def __init__(self, directory, environment):
        self.directory, self.said = directory, directory.with_suffix(".stderr")
        with self.said.open("w") as stderr:
            command = [sys.executable, HERE / "interrupted_run.py", directory]
            self.process = subprocess.Popen(command, stderr=stderr, env=environment)

    def epochs_done(self):
        return len([e for e in events.read(self.directory / "events.jsonl") if e["kind"] == "epoch"])

    def stopped_by(self, number, after):
        """Its status after this signal, sent once so many more epochs are told and a random moment has passed."""
        began = self.epochs_done()
        while self.epochs_done() < began + after:
            assert self.process.poll() is None, self.said.read_text()
            time.sleep(0.002)
        time.sleep(random.Random(after).uniform(0.0, 0.02))
        self.process.send_signal(number)
        return self.process.wait(timeout=300)


def spoil_newest(directory):
    """Flip one bit in the newest checkpoint; its name."""
    newest = max((directory / "checkpoints").glob("epoch-????????"))
    content = bytearray((newest / "state.safetensors").read_bytes())
    content[len(content) // 2] ^= 4
    (newest / "state.safetensors").write_bytes(content)
    return newest.name


def test_killed_terminated_spoilt_and_interrupted_it_ends_the_same(whole, tmp_path):
    stopped = tmp_path / "stopped"
    # The four processes compile the same programs; once is enough.
    shared = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs"),
        **os.environ,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    assert Process(stopped, shared).stopped_by(signal.SIGKILL, 13) == -signal.SIGKILL
    terminated = Process(stopped, shared)
    assert terminated.stopped_by(signal.SIGTERM, 11) == 143
    assert "SIGTERM at epoch" in terminated.said.read_text()
    assert "to do: resume" in terminated.said.read_text()
    spoilt = spoil_newest(stopped)
    interrupted = Process(stopped, shared)
    assert interrupted.stopped_by(signal.SIGINT, 9) == 130
    assert "Traceback" not in interrupted.said.read_text()
    last = Process(stopped, shared)
    assert last.process.wait(timeout=300) == 0, last.said.read_text()

    told = events.read(stopped / "events.jsonl")
    kinds = [event["kind"] for event in told]
    assert [kinds.count(kind) for kind in ("started", "resumed", "interrupted", "finished")] == [4, 3, 2, 1]
    assert [event["name"] for event in told if event["kind"] == "refused"] == [spoilt]
    sampler = tflow.load(stopped)
    assert tiny_run.arrays_of(sampler) == tiny_run.arrays_of(whole.sampler)
    assert same_draws(sampler, whole.sampler)
    left_out = ("time", "seconds")
    records = [
        [{name: value for name, value in record.items() if name not in left_out} for record in history]
        for history in (events.history(told), whole.history)
    ]
    assert records[0] == records[1]
    assert [record["epoch"] for record in records[0]] == list(range(1, EPOCHS + 1))


@pytest.fixture(scope="module")
def ended(tiny):
    """A way to the end from the state after seven epochs, through a checkpoint and a change to what came back."""
    built, stepper, fresh = tiny

    def end(folder, change=lambda state: state):
        state, _ = stepper.run(fresh(), 7)
        checkpoints = Checkpoints(folder / "checkpoints", "run")
        checkpoints.save(7, Journey(state, Anchor.of(state)).to_tree(), {"seconds": 1.0})
        start = fresh()
        with events.EventLog(folder / "events.jsonl") as log:
            journey = train._restored(checkpoints, Journey(start, Anchor.of(start)), log)
        state, _ = stepper.run(change(journey.state), EPOCHS - int(journey.state.epoch))
        return tiny_run.arrays_of(shipped.from_bytes(shipped.to_bytes(state), built, 0))

    return end


def zeroed(where):
    return lambda state: eqx.tree_at(where, state, jax.tree.map(jnp.zeros_like, where(state)))


def newest_lost(state):
    return eqx.tree_at(lambda s: s.buffer.filled, state, state.buffer.filled - 1)


FORGETTING = {
    "which rollout is next": newest_lost,
    "the locations": zeroed(lambda s: s.buffer.locations.x),
    "the optimiser": zeroed(lambda s: s.optimiser),
    "the bias": zeroed(lambda s: s.bias),
    "the average": zeroed(lambda s: s.average.control.network.mlp.layers[0].weight),
    "the iteration": zeroed(lambda s: s.iteration),
    "the patience": lambda state: eqx.tree_at(lambda s: s.patience, state, 0.5 * state.patience),
    "the seed": lambda state: eqx.tree_at(lambda s: s.seed, state, state.seed + 1),
}


def test_a_checkpoint_remembers_everything(whole, ended, tmp_path):
    assert ended(tmp_path) == tiny_run.arrays_of(whole.sampler)


@pytest.mark.parametrize("part", FORGETTING)
def test_forgetting_any_part_of_the_state_ends_otherwise(whole, ended, tmp_path, part):
    assert ended(tmp_path, FORGETTING[part]) != tiny_run.arrays_of(whole.sampler)


def test_with_every_checkpoint_spoilt_it_begins_again_and_says_so(tiny, tmp_path):
    _, _, fresh = tiny
    start = fresh()
    journey, checkpoints = Journey(start, Anchor.of(start)), Checkpoints(tmp_path / "checkpoints", "run")
    later = eqx.tree_at(lambda s: s.epoch, start, start.epoch + 9)
    checkpoints.save(9, Journey(later, journey.anchor).to_tree(), {"seconds": 1.0})
    os.truncate(tmp_path / "checkpoints" / "epoch-00000009" / "state.safetensors", 100)
    with events.EventLog(tmp_path / "events.jsonl") as log:
        assert int(train._restored(checkpoints, journey, log).state.epoch) == 0
    refused, resumed = events.read(tmp_path / "events.jsonl")
    assert refused["name"] == "epoch-00000009"
    assert "truncated" in refused["reason"]
    assert resumed["epoch"] == 0


def test_a_second_signal_stops_at_once():
    with pytest.raises(KeyboardInterrupt), StopRequest(notify=False) as stop:  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        assert stop.number == signal.SIGINT
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
