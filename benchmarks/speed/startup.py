"""From nothing to the first step: imports, building, tracing, compiling; and how much memory it took.

    python -m benchmarks.speed.startup paper

It prints one line of JSON, and is started in a process of its own so that nothing is warm.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def watched(name: str) -> dict[str, Any]:
    """The stages of a first epoch in this process, in seconds."""
    begin = last = time.perf_counter()
    stages: dict[str, float] = {}

    def stage(title: str) -> None:
        nonlocal last
        now = time.perf_counter()
        stages[title], last = round(now - last, 3), now

    import jax

    import temperflow.app.build
    import temperflow.app.stepper

    stage("import_seconds")
    jax.devices()
    stage("device_seconds")
    from benchmarks.speed.cases import SURVEY, configured
    from benchmarks.speed.machine import fast_precision
    from temperflow import targets

    built = temperflow.app.build.build(configured(name), targets.get("gmm40"), SURVEY)
    with jax.default_matmul_precision(fast_precision()):
        state = temperflow.app.stepper.owned(built.trainer.start(built.model, 0))
        stepper = temperflow.app.stepper.Stepper(built.trainer, state)
        stage("build_seconds")
        state, _ = stepper.run(state, 1)
        stage("first_epoch_seconds")
        total = time.perf_counter() - begin
        stepper.run(state, 1)
        stage("second_epoch_seconds")
    memory = jax.devices()[0].memory_stats() or {}
    return {
        **stages,
        # The first epoch holds a rollout and all its updates; the first step is there before them.
        "time_to_first_step_seconds": round(total - stages["second_epoch_seconds"], 3),
        "time_to_first_epoch_seconds": round(total, 3),
        "peak_device_bytes": memory.get("peak_bytes_in_use"),
        "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def cold_and_warm(name: str, limit: float) -> dict[str, Any]:
    """A process with an empty compilation cache, then one that finds it filled."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        for title in ("cold", "warm"):
            begin = time.perf_counter()
            environment = {
                **os.environ,
                "JAX_COMPILATION_CACHE_DIR": cache,
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            }
            command = [sys.executable, "-m", "benchmarks.speed.startup", name]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, env=environment, timeout=limit, check=False
                )
            except subprocess.TimeoutExpired:
                found[title] = {"trouble": f"stopped after {limit:.0f} s"}
                break
            limit -= time.perf_counter() - begin
            if done.returncode:
                found[title] = {"trouble": done.stderr[-600:]}
                break
            found[title] = json.loads(done.stdout.splitlines()[-1])
            found[title]["process_seconds"] = round(time.perf_counter() - begin, 3)
        found["cache_bytes"] = sum(file.stat().st_size for file in Path(cache).rglob("*") if file.is_file())
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    print(json.dumps(watched(parser.parse_args().case)))
