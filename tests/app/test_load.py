"""A trained sampler in another process: the same draws, and soon."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
import tiny_run

import temperflow as tflow
from temperflow.app import runner
from temperflow.app.build import build

# What a reader would write, with a watch. The time is the processor's: other programs may be running.
ELSEWHERE = """
import sys, time
import temperflow as tflow
tflow.load, tflow.Draws
began = time.process_time()
sampler = tflow.load(sys.argv[1])
took = time.process_time() - began
draws = sampler.sample(50, seed=3)
print(took, draws.x.tobytes().hex(), draws.log_weight.tobytes().hex())
"""


def elsewhere(directory):
    """Seconds, positions and weights, from a process that has compiled nothing before."""
    kept_out = {"JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"}
    environment = {name: value for name, value in os.environ.items() if name not in kept_out}
    command = [sys.executable, "-c", ELSEWHERE, str(directory)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    took, x, log_weight = ended.stdout.split()
    return (
        float(took),
        np.frombuffer(bytes.fromhex(x), np.float32),
        np.frombuffer(bytes.fromhex(log_weight), np.float32),
    )


def test_in_another_process_it_draws_the_same_and_is_there_within_three_seconds(whole):
    took, x, log_weight = elsewhere(whole.directory)
    here = whole.sampler.sample(50, seed=3)
    assert x.tobytes() == np.asarray(here.x).tobytes()
    assert log_weight.tobytes() == np.asarray(here.log_weight).tobytes()
    assert took < 3.0


def test_no_initial_parameters_are_drawn_for_what_is_replaced(whole, monkeypatch):
    made = []

    def watched(*arguments, **options):
        made.append(build(*arguments, **options).model)
        return build(*arguments, **options)

    monkeypatch.setattr(runner, "build", watched)
    sampler = tflow.load(whole.directory)
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(made[0]))
    assert tiny_run.arrays_of(sampler) == tiny_run.arrays_of(whole.sampler)


@pytest.mark.parametrize("changes", [{"training__optimiser": "muon"}, {"path__learned": True}])
def test_whatever_looks_at_the_parameters_is_content_with_their_shapes(tmp_path, changes):
    run = tiny_run.run(tmp_path / "run", checkpoint_every=30.0, training__epochs=1, **changes)
    assert tiny_run.arrays_of(tflow.load(tmp_path / "run")) == tiny_run.arrays_of(run.sampler)
