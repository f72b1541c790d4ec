"""Ways to run the same numbers that might be faster: each measured against the plain one in the same minute."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax

from benchmarks.speed import iteration, walks
from benchmarks.speed.cases import Case, case
from benchmarks.speed.machine import fast_precision

BUFFERS = "xla_gpu_enable_command_buffer"
GRAPHED = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION"
# Flags for the compiler, by what they do.
OPTIONS: dict[str, dict[str, Any]] = {
    "no_graphs": {BUFFERS: ""},
    "graphs_from_one_kernel": {BUFFERS: GRAPHED, "xla_gpu_graph_min_graph_size": 1},
    "graphs_with_loops": {BUFFERS: f"{GRAPHED},WHILE,CONDITIONAL", "xla_gpu_graph_min_graph_size": 1},
    "no_triton_products": {"xla_gpu_enable_triton_gemm": False},
}
PRECISIONS = ("tensorfloat32", "TF32_TF32_F32_X3", "BF16_BF16_F32_X6", "bfloat16")


@contextlib.contextmanager
def scans_unrolled(steps: int) -> Iterator[None]:
    """Every `lax.scan` traced inside takes so many steps a trip."""
    plain = jax.lax.scan
    jax.lax.scan = lambda *args, **kwargs: plain(*args, **{**kwargs, "unroll": steps})
    try:
        yield
    finally:
        jax.lax.scan = plain


@contextlib.contextmanager
def float32_read_as(precision: str) -> Iterator[None]:
    """Where the library asks for float32 products, it gets these instead: what its caution costs."""
    plain = jax.default_matmul_precision
    jax.default_matmul_precision = lambda name: plain(precision if name == "float32" else name)  # pyright: ignore
    try:
        yield
    finally:
        jax.default_matmul_precision = plain


def of_iteration(one: Case, iterations: int, seconds: float, more: Callable[[], bool], note: Any) -> None:
    """Precision, unrolling, compiler flags; also a batch of seeds in one program's worth of work."""
    note("float32", _tried(lambda: iteration.measured(one, iterations, seconds, "float32")))
    for name, options in _options().items():
        if more():
            measured = _tried(lambda o=options: iteration.measured(one, iterations, seconds, options=o))
            note(name, measured)
    for steps in (2, 4):
        if more():
            with scans_unrolled(steps):
                note(f"unroll_{steps}", _tried(lambda: iteration.measured(one, iterations, seconds)))
    for precision in ("bfloat16",) if jax.default_backend() == "gpu" else ():
        if more():
            note(precision, _tried(lambda p=precision: iteration.measured(one, iterations, seconds, p)))


def of_rollout(name: str, seconds: float, more: Callable[[], bool], note: Any) -> None:
    """Unrolling, compiler flags, and what float32 products cost."""
    one = case(name)
    for title, options in _options().items():
        if more():
            note(title, _tried(lambda o=options: walks.rollout(one, seconds, o)))
    for precision in PRECISIONS[:3] if fast_precision() != "float32" else ():
        if more():
            with float32_read_as(precision):
                note(precision, _tried(lambda: walks.rollout(one, seconds)))
    if more():
        with scans_unrolled(2):
            note("unroll_2", _tried(lambda: walks.rollout(one, seconds)))


def _options() -> dict[str, dict[str, Any]]:
    return OPTIONS if jax.default_backend() == "gpu" else {}


def _tried(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The measurement, or why there is none."""
    try:
        return measure()
    except Exception as error:  # a flag that this compiler refuses is a result too
        return {"trouble": repr(error)[:400]}
