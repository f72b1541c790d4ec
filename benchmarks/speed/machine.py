"""What this machine can do at best: matrix products and copies, measured in the same run."""

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from benchmarks.speed.clock import steady
from temperflow.app.reproduce.session import commit

PACKAGES = ("temperflow", "jax", "jaxlib", "equinox", "optax", "numpy", "torch")


def on_gpu() -> bool:
    return jax.default_backend() == "gpu"


def fast_precision() -> str:
    """What training's matrix products run in: TF32 where there is such a thing."""
    return "tensorfloat32" if on_gpu() else "float32"


def matmul_rate(precision: str, size: int, seconds: float) -> float:
    """Floating-point operations a second of a square product of random numbers, many in one program."""
    keys = jax.random.split(jax.random.key(0))
    left, right = (jax.random.normal(key, (size, size)) / size**0.5 for key in keys)
    repeats = 8 if on_gpu() else 1

    @jax.jit
    def product(left, right):
        with jax.default_matmul_precision(precision):
            return jax.lax.fori_loop(0, repeats, lambda _, out: out @ right, left)

    return 2.0 * size**3 * repeats / steady(lambda: product(left, right), seconds).median


def copy_rate(megabytes: int, seconds: float) -> float:
    """Bytes a second through memory, read and written, of adding one to a large array."""
    array = jax.random.normal(jax.random.key(0), (megabytes * 2**18,))
    advance = jax.jit(lambda a: a + 1.0)
    return 2.0 * array.nbytes / steady(lambda: advance(array), seconds).median


def rates(seconds: float) -> dict[str, float]:
    """Rates in operations and bytes a second."""
    size = 8192 if on_gpu() else 1024
    precisions = ["float32", "tensorfloat32", "bfloat16"] if on_gpu() else ["float32"]
    found = {f"matmul_{name}": matmul_rate(name, size, seconds) for name in precisions}
    return {**found, "copy": copy_rate(2048 if on_gpu() else 256, seconds)}


def facts() -> dict[str, Any]:
    """Which machine, which versions, which commit, which command."""
    device = jax.devices()[0]
    return {
        "device": f"{device.device_kind} x{jax.device_count()}" if on_gpu() else _processor(),
        "backend": jax.default_backend(),
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": commit(),
        "command": " ".join(["python -m benchmarks.speed", *sys.argv[1:]]),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} x{len(names)}" if names else platform.processor()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
