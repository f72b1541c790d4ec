"""Learning curves, as `events.jsonl` tells them."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from temperflow.app.report.measure import Values
from temperflow.app.report.style import COLD, FAINT, HOT, TRUTH, drawing, legend, plain_logarithm

# More points than this are not seen, only weighed.
POINTS = 600


def residual(epochs: list[dict[str, Any]]) -> str:
    """Residual and loss by epoch."""

    def draw(axes: Axes) -> None:
        rooted = [{**epoch, "loss": _root(epoch.get("loss"))} for epoch in epochs]
        _line(axes, rooted, "loss", HOT, "root of the loss", 0.9)
        _line(axes, epochs, "residual_tail", FAINT, "residual, 99th percentile", 0.9)
        _line(axes, epochs, "residual", COLD, "residual, root mean square", 1.5)
        axes.set_yscale("log")
        plain_logarithm(axes.yaxis)
        axes.set_xlabel("epoch")
        axes.set_ylabel("residual [nats per unit time]")
        legend(axes)

    return drawing(draw, "curve-residual")


def exploration(epochs: list[dict[str, Any]]) -> str:
    """Effective share, cold and hot occupation by epoch."""

    def draw(axes: Axes) -> None:
        _line(axes, epochs, "ess", TRUTH, "effective share of path weights", 1.4)
        _line(axes, epochs, "cold_share", COLD, r"walkers at $\beta = 1$", 1.1)
        _line(axes, epochs, "hot_share", HOT, "walkers at the hottest", 1.1)
        axes.set_ylim(0.0, 1.02)
        axes.set_xlabel("epoch")
        axes.set_ylabel("share of the walkers")
        legend(axes)

    return drawing(draw, "curve-exploration")


def evidence(epochs: list[dict[str, Any]], known: float | None) -> str:
    """log Z by the proposal's weights and by the learned free energy, by epoch."""

    def draw(axes: Axes) -> None:
        _line(axes, epochs, "log_evidence", HOT, "from path weights", 0.8)
        negative = [{**epoch, "free_energy": _negated(epoch.get("free_energy"))} for epoch in epochs]
        _line(axes, negative, "free_energy", COLD, r"learned, $-F_\theta(1, 1)$", 1.4)
        if known is not None:
            axes.axhline(known, color=TRUTH, linewidth=1.0, linestyle="--", label="known")
        axes.set_xlabel("epoch")
        axes.set_ylabel(r"$\log Z$ [nats]")
        axes.set_ylim(*_middle([*_values(epochs, "log_evidence"), *_values(negative, "free_energy")], known))
        legend(axes)

    return drawing(draw, "curve-evidence")


def _line(axes: Axes, epochs: list[dict[str, Any]], name: str, colour: str, label: str, width: float) -> None:
    step = max(1, len(epochs) // POINTS)
    axes.plot(_values(epochs, "epoch")[::step], _values(epochs, name)[::step], color=colour, label=label, lw=width)


def _values(epochs: Iterable[Mapping[str, Any]], name: str) -> Values:
    return np.array([np.nan if epoch.get(name) is None else float(epoch[name]) for epoch in epochs])


def _root(value: float | None) -> float | None:
    # The two-probe loss may be negative.
    return None if value is None or value < 0 else value**0.5


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _middle(values: list[float], known: float | None) -> tuple[float, float]:
    """A range that the first wild epochs do not dictate."""
    finite = np.array([value for value in values if np.isfinite(value)])
    if not finite.size:
        return -1.0, 1.0
    settled = finite if finite.size < 20 else finite[np.abs(finite - np.median(finite)) <= _reach(finite)]
    low, high = settled.min(), settled.max()
    if known is not None:
        low, high = min(low, known), max(high, known)
    margin = 0.08 * (high - low) + 1e-3
    return float(low - margin), float(high + margin)


def _reach(finite: Values) -> float:
    return float(6.0 * np.quantile(np.abs(finite - np.median(finite)), 0.8))
