"""Operations and bytes by arithmetic, and kernels by what the compiler made."""

import re
from pathlib import Path
from typing import Any

from temperflow.models import ExactDivergence, Model, Network
from temperflow.training import Trainer


def forward_products(network: Network, rows: int) -> tuple[int, int]:
    """Multiply-adds of one point through an MLP that carries so many rows; and the first layer's among them."""
    first, *rest = [layer.weight.size for layer in network.mlp.layers]
    return rows * (first + sum(rest)), rows * first


def rows_of(trainer: Trainer, dim: int) -> dict[str, int]:
    """Rows that a residual carries through each network: a value and its derivatives."""
    divergence = trainer.loss.divergence
    directions = dim if isinstance(divergence, ExactDivergence) else divergence.probes  # pyright: ignore
    return {"control": 1 + directions, "free_energy": 2, "potential": 2}


def networks_of(model: Model) -> dict[str, Network]:
    """The learned functions' networks by name."""
    found = {"control": model.control.network, "free_energy": model.free_energy.network}
    return found if model.potential is None else {**found, "potential": model.potential.network}


def iteration_operations(trainer: Trainer, model: Model, dim: int) -> float:
    """Operations of one update's matrix products, two a multiply-add.

    The reverse pass takes a product for the weights and one for the inputs; the first layer's
    inputs, the features, need none.
    """
    total = 0
    rows = rows_of(trainer, dim)
    for name, network in networks_of(model).items():
        forward, first = forward_products(network, rows[name])
        total += 3 * forward - first
    return 2.0 * total * trainer.batch


def iteration_bytes(trainer: Trainer, model: Model, dim: int) -> float:
    """Bytes of one update when every product and every activation is a kernel of its own.

    Eleven passes over each hidden layer's rows: written by a product, read and written by the
    activation, read by the next product; on the way back two products read two and write one of
    them, and the activation reads two and writes one. One kernel for a whole network would move
    almost none of it.
    """
    rows, total = rows_of(trainer, dim), 0
    for name, network in networks_of(model).items():
        total += rows[name] * sum(layer.weight.shape[0] for layer in network.mlp.layers[:-1])
    return 11.0 * 4.0 * total * trainer.batch


def rollout_operations(trainer: Trainer, model: Model, dim: int, splitting: bool) -> float:
    """Operations of one rollout's matrix products, were no network evaluated twice where nothing moved.

    A splitting step needs the control with its Jacobian once, and the forces (a value and its
    gradient in x or β) of the other two at two places; the paper's scheme needs them at one, and the potential's
    derivative along the way besides.
    """
    places = 2 if splitting else 1
    rows = {"control": 1 + dim, "free_energy": 2 * places, "potential": 2 * places if splitting else 3}
    each = sum(forward_products(network, rows[name])[0] for name, network in networks_of(model).items())
    return 2.0 * each * trainer.walkers * trainer.steps


def compiled_cost(compiled: Any, keep: Path | None = None) -> dict[str, Any]:
    """What the compiler says: operations and bytes (a loop's body counted once), memory, kernels.

    `keep` is where the program's text goes, for a closer look.
    """
    text = compiled.as_text()
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.write_text(text)
    cost = compiled.cost_analysis() or {}
    cost = cost[0] if isinstance(cost, list) else cost
    memory = compiled.memory_analysis()
    return {
        "xla_operations_once": cost.get("flops"),
        "xla_bytes_once": cost.get("bytes accessed"),
        "temporary_bytes": getattr(memory, "temp_size_in_bytes", None),
        "argument_bytes": getattr(memory, "argument_size_in_bytes", None),
        "kernels_in_longest_loop": kernels(text),
    }


# Instructions that cost a launch, or on a CPU a task; everything else is bookkeeping.
_WORK = re.compile(
    r"\s(fusion|custom-call|dot|reduce|scatter|gather|sort|dynamic-update-slice|copy|concatenate|transpose"
    r"|cholesky|triangular-solve|convolution|while|conditional|call|select-and-scatter|rng-bit-generator)\("
)


def kernels(text: str) -> dict[str, int]:
    """Kernels of the loop body with the most of them, by kind: what one iteration launches."""
    longest: dict[str, int] = {}
    bodies = set(re.findall(r"body=%?([\w.\-]+)", text))
    for name, lines in _computations(text).items():
        if name not in bodies:
            continue
        counts: dict[str, int] = {}
        for line in lines:
            found = _WORK.search(line.split(", metadata=")[0])
            if found is not None:
                kind = "matmul" if "gemm" in line or "matmul" in line else found.group(1)
                counts[kind] = counts.get(kind, 0) + 1
        if sum(counts.values()) > sum(longest.values()):
            longest = counts
    return {"total": sum(longest.values()), **longest}


def _computations(text: str) -> dict[str, list[str]]:
    """The module's computations by name."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        opened = re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line)
        if opened is not None:
            current = found.setdefault(opened.group(1), [])
        elif line.startswith("}"):
            current = None
        elif current is not None:
            current.append(line)
    return found
