"""The training iteration as one writes it first in PyTorch, eager and compiled.

    python -m benchmarks.peers.torch_iteration problem.npz result.json

`problem.npz` is what `exported` writes, with the loss and gradient that are to come out. Needs
torch, which is no dependency of temperflow.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

Tensors = dict[str, torch.Tensor]


def network(p: Tensors, prefix: str, t: torch.Tensor, x: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """Fourier features, then SiLU layers; a batch at once."""
    parts = []
    for name, value in (("position", x), ("time", t[:, None]), ("temperature", beta[:, None])):
        if f"{prefix}.{name}" in p:
            # A sum, in full precision as phases need.
            phase = 2.0 * math.pi * (value[:, None, :] * p[f"{prefix}.{name}"]).sum(-1)
            parts += [phase.sin(), phase.cos()]
            if f"{prefix}.{name}_scale" in p:
                parts.append(value / p[f"{prefix}.{name}_scale"])
    hidden, index = torch.cat(parts, dim=1), 0
    while f"{prefix}.layer{index + 1}.weight" in p:
        hidden = functional.silu(
            functional.linear(hidden, p[f"{prefix}.layer{index}.weight"], p[f"{prefix}.layer{index}.bias"])
        )
        index += 1
    return functional.linear(hidden, p[f"{prefix}.layer{index}.weight"], p[f"{prefix}.layer{index}.bias"])


def control(p: Tensors, t: torch.Tensor, x: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return p["output_scale"] * network(p, "control", t, x, beta)


def free_energy(p: Tensors, t: torch.Tensor, x: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return t * network(p, "free_energy", t, x, beta)[:, 0]


def energy(p: Tensors, batch: Tensors, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The path's energy, the target through its stored value and gradient."""
    variance, beta = p["source_scale"] ** 2, batch["beta"]
    target = batch["energy"] + (batch["gradient"] * (x - batch["x"])).sum(1)
    value = (1.0 - t) * (x**2).sum(1) / (2.0 * variance) + t * target
    if "potential.layer0.weight" in p:
        value = value + t * (1.0 - t) * network(p, "potential", t, x, beta)[:, 0]
    return beta * value + (1.0 - t) * x.shape[1] / 2.0 * torch.log(2.0 * math.pi * variance / beta)


def reverse_loss(p: Tensors, batch: Tensors) -> torch.Tensor:
    """Derivatives by `autograd.grad`, a reverse pass a component, as most published code does."""
    t, x, beta = batch["t"].clone().requires_grad_(), batch["x"].clone().requires_grad_(), batch["beta"]

    def derivative(value: torch.Tensor, *of: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(value.sum(), of, create_graph=True)

    velocity = control(p, t, x, beta)
    divergence = sum(derivative(velocity[:, i], x)[0][:, i] for i in range(x.shape[1]))
    rate = derivative(free_energy(p, t, x, beta), t)[0]
    along_t, along_x = derivative(energy(p, batch, t, x), t, x)
    return ((rate - along_t - (along_x * velocity).sum(1) + divergence) ** 2).mean()


def forward_loss(p: Tensors, batch: Tensors) -> torch.Tensor:
    """Derivatives by `torch.func.jvp`, a forward pass a direction."""
    t, x, beta = batch["t"], batch["x"], batch["beta"]
    velocity, divergence = None, torch.zeros_like(t)
    for i in range(x.shape[1]):
        direction = torch.zeros_like(x)
        direction[:, i] = 1.0
        velocity, pushed = torch.func.jvp(lambda y: control(p, t, y, beta), (x,), (direction,))
        divergence = divergence + pushed[:, i]
    assert velocity is not None
    _, rate = torch.func.jvp(lambda s: free_energy(p, s, x, beta), (t,), (torch.ones_like(t),))
    _, along = torch.func.jvp(lambda s, y: energy(p, batch, s, y), (t, x), (torch.ones_like(t), velocity))
    return ((rate - along + divergence) ** 2).mean()


class Problem:
    """Weights, buffer and expectations from a file, on the fastest device there is."""

    def __init__(self, path: Path):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        with np.load(path) as file:
            every = {name: torch.as_tensor(file[name]).to(self.device) for name in file.files}
        self.buffer = {name[7:]: value for name, value in every.items() if name.startswith("buffer.")}
        self.check = {name[6:]: value for name, value in every.items() if name.startswith("check.")}
        self.expected = {name[9:]: value for name, value in every.items() if name.startswith("expected.")}
        self.batch, self.rate = int(every["batch"]), float(every["learning_rate"])
        known = ("buffer.", "check.", "expected.")
        self.p = {name: value for name, value in every.items() if not name.startswith(known)}

    def parameters(self) -> Tensors:
        """Fresh copies of what is trained."""
        return {name: value.clone().requires_grad_() for name, value in self.p.items() if ".layer" in name}

    def difference(self, loss: Callable[[Tensors, Tensors], torch.Tensor]) -> float:
        """Largest relative distance, of the loss and of the whole gradient, from what was expected."""
        parameters = self.parameters()
        value = loss({**self.p, **parameters}, self.check)
        value.backward()
        off = [abs(float(value.detach() / self.expected["loss"]) - 1.0)]
        square, norm = 0.0, 0.0
        for name, parameter in parameters.items():
            assert parameter.grad is not None
            square += float(((parameter.grad - self.expected[name]) ** 2).sum())
            norm += float((self.expected[name] ** 2).sum())
        return max(*off, math.sqrt(square / norm))

    def timed(self, loss: Callable[[Tensors, Tensors], torch.Tensor], seconds: float) -> dict[str, Any]:
        """Median milliseconds of a whole update: batch, loss, gradient, Adam."""
        parameters = self.parameters()
        whole = {**self.p, **parameters}
        optimiser = torch.optim.Adam(parameters.values(), lr=self.rate)
        size = self.buffer["t"].shape[0]

        def update() -> None:
            index = torch.randint(size, (self.batch,), device=self.device)
            optimiser.zero_grad()
            loss(whole, {name: value[index] for name, value in self.buffer.items()}).backward()
            optimiser.step()

        begin = time.perf_counter()
        update()
        self.wait()
        first = time.perf_counter() - begin
        for _ in range(2):
            update()
        self.wait()
        taken, end, group = [], time.perf_counter() + seconds, 10 if self.device == "cuda" else 1
        while time.perf_counter() < end or len(taken) < 3:
            begin = time.perf_counter()
            for _ in range(group):
                update()
            self.wait()
            taken.append((time.perf_counter() - begin) / group)
        return {
            "median_ms": 1e3 * statistics.median(taken),
            "least_ms": 1e3 * min(taken),
            "count": len(taken),
            "first_call_seconds": first,
        }

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="timed, for each way")
    arguments = parser.parse_args()
    problem = Problem(arguments.problem)
    result: dict[str, Any] = {"torch": torch.__version__, "device": problem.device}

    def note(name: str, findings: Any) -> None:
        result[name] = findings
        arguments.result.write_text(json.dumps(result))

    torch.set_float32_matmul_precision("highest")
    losses = {"reverse": reverse_loss, "forward": forward_loss}
    note("difference", {name: problem.difference(loss) for name, loss in losses.items()})
    precisions = {"float32": "highest", "tensorfloat32": "high"} if problem.device == "cuda" else {"float32": "highest"}
    for precision, setting in reversed(precisions.items()):
        torch.set_float32_matmul_precision(setting)
        for name, loss in losses.items():
            note(f"eager_{name}_{precision}", problem.timed(loss, arguments.seconds))
    for precision, setting in reversed(precisions.items()):
        torch.set_float32_matmul_precision(setting)
        torch._dynamo.reset()
        try:
            compiled = torch.compile(forward_loss)
            note(f"compiled_{precision}", problem.timed(compiled, arguments.seconds))
            if precision == "float32":
                note("difference_compiled", problem.difference(compiled))
        except Exception as error:  # what a compiler refuses is a finding too
            note(f"compiled_{precision}_error", repr(error)[-600:])


if __name__ == "__main__":
    main()
