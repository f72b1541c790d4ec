"""What is measured, in the order of its worth, each part only while the time lasts."""

import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.speed import growth, iteration, machine, peers, sampling, startup, variants, walks
from benchmarks.speed.cases import Case, case


class Bench:
    """Findings by part, written after each; parts of an earlier call into the same file are kept.

    Args:
        path: where they are written.
        budget: seconds after which nothing new is begun.
        short: small sizes only, as `make bench` wants.
        hlo: a folder for compiled programs' text.
    """

    def __init__(self, path: Path, budget: float, short: bool, hlo: Path | None):
        self.path, self.budget, self.hlo = path, budget, hlo
        self.short = short
        self.gpu = machine.on_gpu()
        self._begin = time.perf_counter()
        before = json.loads(path.read_text()) if path.exists() else {}
        self.parts: dict[str, Any] = before.get("parts", {})

    def left(self) -> float:
        return self.budget - (time.perf_counter() - self._begin)

    def run(self, name: str) -> None:
        """One part, if there is time for it; a part that breaks is noted and the next one begins."""
        part, needs = AGENDA[name]
        if self.left() < (needs if self.gpu else 0.0):
            print(f"{name}: left out, {self.left():.0f} s left and it may need {needs}", flush=True)
            return
        begin = time.perf_counter()
        self.parts[name] = {}
        try:
            part(self, functools.partial(self._note, name))
        except Exception as error:  # the other parts are still worth having
            self._note(name, "trouble", repr(error)[:1000])
        self._note(name, "part_seconds", round(time.perf_counter() - begin, 1))
        print(f"{name}: {time.perf_counter() - begin:.1f} s, {self.left():.0f} s left", flush=True)
        print("   ", summary(self.parts[name]), flush=True)

    def finish(self) -> None:
        print(json.dumps({key: value for key, value in self.headline().items() if key != "versions"}, indent=1))

    def _note(self, part: str, name: str, findings: Any) -> None:
        self.parts[part][name] = findings
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({**self.headline(), "parts": self.parts}, indent=1) + "\n")

    def headline(self) -> dict[str, Any]:
        """The keys that comparisons are made of; None where a part has not been measured."""
        at = functools.partial(_at, self.parts)
        rate = at("machine", "rates", f"matmul_{machine.fast_precision()}")
        tflops = at("iteration", "paper", "tflops")
        torch, precision = at("torch", "found") or {}, machine.fast_precision()
        eager = [torch[f"eager_{way}_{precision}"]["median_ms"] for way in ("reverse", "forward") if _eager(torch, way)]
        return {
            "paper_training_seconds": at("epoch", "paper", "training_seconds_projected"),
            "paper_training_seconds_splitting": at("epoch", "paper-splitting", "training_seconds_projected"),
            "time_to_first_step_seconds": at("startup", "paper", "cold", "time_to_first_step_seconds"),
            "time_to_first_step_seconds_cached": at("startup", "paper", "warm", "time_to_first_step_seconds"),
            "iteration_ms": at("iteration", "paper", "median_ms"),
            "iteration_ms_float32": at("variants", "float32", "median_ms"),
            "iteration_ms_quick": at("quick", "iteration", "median_ms"),
            "iteration_ms_torch_eager": min(eager, default=None),
            "iteration_ms_torch_compiled": (torch.get(f"compiled_{precision}") or {}).get("median_ms"),
            "iteration_ms_plain_jax": at("plain_jax", "paper", "median_ms"),
            "rollout_ms": at("rollout", "paper-splitting", "median_ms"),
            "rollout_ms_euler": at("rollout", "paper", "median_ms"),
            "matmul_rate_tflops": None if rate is None else round(rate / 1e12, 4),
            "fraction_of_matmul_rate": None if None in (rate, tflops) else round(tflops * 1e12 / rate, 4),
            **machine.facts(),
        }


def _at(tree: Any, *path: str) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _eager(torch: dict[str, Any], way: str) -> bool:
    return f"eager_{way}_{machine.fast_precision()}" in torch


def summary(part: dict[str, Any]) -> str:
    """The medians in a part, on one line."""
    found = []

    def walk(tree: Any, path: str) -> None:
        for key, value in tree.items() if isinstance(tree, dict) else ():
            if key == "median_ms":
                found.append(f"{path.strip('.')} {value:.4g} ms")
            elif "trouble" in key or key.endswith("_error"):
                found.append(f"{path.strip('.')} {key}: {str(value)[:160]}")
            else:
                walk(value, f"{path}.{key}")

    walk(part, "")
    return "; ".join(found)


Note = Callable[[str, Any], None]


@functools.cache
def _case(name: str) -> Case:
    return case(name)


def _machine(bench: Bench, note: Note) -> None:
    note("rates", machine.rates(0.4 if bench.gpu else 1.0))


def _quick(bench: Bench, note: Note) -> None:
    """The size that two cores are meant for."""
    one = _case("quick")
    rounds = 5 if bench.gpu or bench.short else 15
    note("iteration", iteration.beside_products(one, one.trainer.iterations if bench.gpu else 10, rounds))
    note("rollout", walks.rollout(one, 1.0))
    if not bench.short:
        note("epoch", walks.epoch(one, 2.0 if bench.gpu else 20.0, 40))


def _iteration(bench: Bench, note: Note) -> None:
    for name in ("paper",) if bench.gpu else ("paper", "ctds"):
        note(name, iteration.measured(_case(name), 100 if bench.gpu else 2, 1.5, keep=bench.hlo))


def _other_iterations(bench: Bench, note: Note) -> None:
    note("ctds", iteration.measured(_case("ctds"), 100, 1.0, keep=bench.hlo))


def _rollout(bench: Bench, note: Note) -> None:
    for name in ("paper-splitting", "paper"):
        note(name, walks.rollout(_case(name), 1.5, keep=bench.hlo))


def _epoch(bench: Bench, note: Note) -> None:
    for name in ("paper", "paper-splitting") if bench.gpu else ():
        note(name, walks.epoch(_case(name), 4.0, 200))


def _plain_jax(bench: Bench, note: Note) -> None:
    one = _case("paper")
    note("paper", peers.plain(one, 100 if bench.gpu else 2, 1.0, peers.problem(one)))


def _torch(bench: Bench, note: Note) -> None:
    note("found", peers.torch(peers.problem(_case("paper")), 1.0, min(100.0 if bench.gpu else 900.0, bench.left())))


def _startup(bench: Bench, note: Note) -> None:
    name = "paper" if bench.gpu else "quick"
    note(name, startup.cold_and_warm(name, min(150.0 if bench.gpu else 900.0, bench.left())))


def _variants(bench: Bench, note: Note) -> None:
    one, many = _case("paper" if bench.gpu else "quick"), 100 if bench.gpu else 10
    variants.of_iteration(one, many, 0.6, lambda: bench.left() > 15.0, note)


def _rollout_variants(bench: Bench, note: Note) -> None:
    variants.of_rollout("paper-splitting" if bench.gpu else "quick", 0.6, lambda: bench.left() > 15.0, note)


def _sampling(bench: Bench, note: Note) -> None:
    name = "ctds" if bench.gpu else "quick"
    note(name, sampling.draws(_case(name), *((100_000, 16_384) if bench.gpu else (2_000, 512)), 1.0))


def _growth(bench: Bench, note: Note) -> None:
    def more() -> bool:
        return bench.left() > 12.0

    recipe, many, seconds = ("ctds", 50, 0.3) if bench.gpu else ("quick", 5, 1.0)
    batches = [1024, 4096, 16_384] if bench.gpu else [128, 512, 2048]
    widths = [128, 256, 512] if bench.gpu else [64, 128, 256]
    dims = [2, 8, 16, 32, 128] if bench.gpu else [2, 4, 8, 16, 32, 64, 128]
    walkers = [1024, 4096, 16_384] if bench.gpu else [64, 256, 1024]
    note("dimension", growth.of_dimension(recipe, dims, many, seconds, more))
    sizes = {"training.batch": batches, "network.width": widths}
    note("iteration", growth.of_iteration(recipe, sizes, many, seconds, more))
    sizes = {"training.walkers": walkers, "training.steps": [20, 40, 80]}
    note("rollout", growth.of_rollout(recipe, sizes, seconds, more))


# By name: what to do, and the seconds of a GPU it may need.
AGENDA: dict[str, tuple[Callable[[Bench, Note], None], float]] = {
    "machine": (_machine, 0),
    "iteration": (_iteration, 10),
    "quick": (_quick, 1000),
    "rollout": (_rollout, 10),
    "epoch": (_epoch, 20),
    "plain_jax": (_plain_jax, 15),
    "torch": (_torch, 30),
    "startup": (_startup, 40),
    "variants": (_variants, 15),
    "rollout_variants": (_rollout_variants, 15),
    "other_iterations": (_other_iterations, 15),
    "sampling": (_sampling, 20),
    "growth": (_growth, 20),
}
