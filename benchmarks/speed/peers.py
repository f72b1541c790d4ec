"""The same iteration written the plain way, in JAX and in PyTorch, after checking that it is the same."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.peers import exported, plain_jax
from benchmarks.speed.cases import Case
from benchmarks.speed.clock import Program, steady
from benchmarks.speed.counting import compiled_cost
from benchmarks.speed.machine import fast_precision

CHECKED = 512
# Of the loss and of the gradient as a whole: different orders of summation, no more.
TOLERANCE = 1e-4


def problem(case: Case) -> dict[str, Any]:
    """All arrays of a case, with the loss and gradient that our own code makes of a part of them."""
    model, continuum = case.state.model, case.trainer.proposal.joint.continuum
    buffer = exported.location_arrays(case.state.buffer.locations, "buffer.")
    check = case.state.buffer.sample(jax.random.key(3), CHECKED)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def of(model):
        return case.trainer.loss(jax.random.key(0), model, check, continuum)[0]

    with jax.default_matmul_precision("float32"):
        loss, gradient = of(model)
    expected = {f"expected.{name}": value for name, value in exported.model_arrays(gradient_model(gradient)).items()}
    return {
        **exported.model_arrays(model),
        **exported.path_arrays(continuum),
        **buffer,
        **exported.location_arrays(check, "check."),
        **{name: value for name, value in expected.items() if ".layer" in name},
        "expected.loss": np.asarray(loss),
        "batch": np.asarray(case.trainer.batch),
        "learning_rate": np.asarray(case.built.config.training.learning_rate, np.float32),
    }


def gradient_model(gradient: Any) -> Any:
    """A gradient has no leaf where a plain number stands; zeros do."""
    return eqx.tree_at(lambda m: m.control.output_scale, gradient, 0.0, is_leaf=lambda leaf: leaf is None)


def plain(case: Case, iterations: int, seconds: float, arrays: dict[str, Any]) -> dict[str, Any]:
    """The obvious JAX version."""
    parts = {name: jnp.asarray(value) for name, value in arrays.items()}
    own = {name: v for name, v in parts.items() if not name.startswith(("buffer.", "check.", "expected."))}
    buffer = {name[7:]: value for name, value in parts.items() if name.startswith("buffer.")}
    check = {name[6:]: value for name, value in parts.items() if name.startswith("check.")}
    fixed, parameters = {k: v for k, v in own.items() if ".layer" not in k}, plain_jax.learned(own)
    with jax.default_matmul_precision("float32"):
        value, gradient = jax.jit(jax.value_and_grad(lambda p: plain_jax.loss({**fixed, **p}, check)))(parameters)
    square = sum(float(jnp.sum((gradient[k] - parts[f"expected.{k}"]) ** 2)) for k in gradient)
    norm = sum(float(jnp.sum(parts[f"expected.{k}"] ** 2)) for k in gradient)
    difference = max(abs(float(value) / float(parts["expected.loss"]) - 1.0), (square / norm) ** 0.5)
    optimiser = optax.adam(float(arrays["learning_rate"]))
    run = plain_jax.learn(own, buffer, case.trainer.batch, iterations, optimiser)
    program = Program(run, (parameters, optimiser.init(parameters)), precision=fast_precision())
    timing = steady(program, seconds).per(iterations)
    return {
        **timing.in_milliseconds(),
        **program.once(),
        "difference": difference,
        "same": difference < TOLERANCE,
        **compiled_cost(program.compiled),
    }


def torch(arrays: dict[str, Any], seconds: float, limit: float) -> dict[str, Any]:
    """PyTorch in a process of its own; what it had found by the limit counts."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "problem.npz", Path(folder) / "result.json"
        exported.save(source, arrays)
        command = [sys.executable, "-m", "benchmarks.peers.torch_iteration", str(source), str(result)]
        trouble = None
        try:
            done = subprocess.run(
                [*command, "--seconds", str(seconds)], capture_output=True, text=True, timeout=limit, check=False
            )
            trouble = done.stderr[-600:] if done.returncode else None
        except subprocess.TimeoutExpired:
            trouble = f"stopped after {limit:.0f} s"
        found = json.loads(result.read_text()) if result.exists() else {}
    return {**found, **({} if trouble is None else {"trouble": trouble})}
