"""The paper's three figures: draws of three samplers, temperatures before and after, the temperature map."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from temperflow.app.config import TemperatureConfig
from temperflow.app.report.style import COLD, FAINT, HOT, PALE, drawing, legend, picture, standalone
from temperflow.paths import TemperatureMap
from temperflow.targets import Target

# Nats under the highest point, where one, two and three standard deviations of a round mode end.
_DEPTHS = (4.5, 2.0, 0.5)
_GRID = 400


def scatter(target: Target, panels: Mapping[str, Any]) -> str:
    """Draws of several samplers side by side over the target's outlines; at most three are shown well.

    Args:
        target: in two dimensions.
        panels: title to draws.
    """
    reach = _reach(target)
    line = np.linspace(-reach, reach, _GRID, dtype=np.float32)
    points = jnp.asarray(np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2))
    height = np.asarray(jax.lax.map(target.log_density, points, batch_size=8192)).reshape(_GRID, _GRID)
    levels = [float(height.max()) - depth for depth in _DEPTHS]

    def draw(figure: Figure) -> None:
        many = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (title, x) in zip(many, panels.items(), strict=True):
            axes.contour(line, line, height, levels=levels, colors=FAINT, linewidths=0.6, linestyles="solid")
            axes.scatter(x[:, 0], x[:, 1], s=3.0, color=COLD, alpha=0.55, linewidths=0, rasterized=True)
            axes.set(title=title, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$x_1$")
        many[0].set_ylabel("$x_2$")

    return standalone(picture(draw, "scatter", width=3.4 * len(panels), height=3.7))


def temperatures(before: Any, after: Any, hottest: float) -> str:
    """Inverse temperatures of the walkers at t = 1, with the untrained and with the trained functions."""
    edges = np.linspace(hottest, 1.0, 21)

    def draw(axes: Axes) -> None:
        middle, width = (edges[:-1] + edges[1:]) / 2, edges[1] - edges[0]
        for side, beta, colour, label in ((-0.22, before, PALE, "before training"), (0.22, after, COLD, "after")):
            share = np.histogram(np.clip(beta, hottest, 1.0), edges)[0] / np.size(beta)
            axes.bar(middle + side * width, share, 0.44 * width, color=colour, label=label)
        axes.set_xlabel(r"inverse temperature $\beta$ at $t = 1$ (1 is the target)")
        axes.set_ylabel("share of the walkers")
        legend(axes)

    return standalone(drawing(draw, "temperatures"))


def temperature_map(heat: TemperatureConfig) -> str:
    """β(ξ), with the plateaus' edges and where the walls begin."""
    xi = np.linspace(-1.2 * heat.edge, 1.2 * heat.edge, 601, dtype=np.float32)
    beta = np.asarray(jax.vmap(TemperatureMap(heat.hottest, heat.cold_edge, heat.hot_edge))(jnp.asarray(xi)))

    def draw(axes: Axes) -> None:
        for place, colour, name in (
            (heat.cold_edge, COLD, r"$\pm\Delta$"),
            (heat.hot_edge, HOT, r"$\pm\Delta'$"),
            (heat.edge, FAINT, r"$\pm\tilde\Delta$, the walls"),
        ):
            for sign in (-1, 1):
                label = name if sign == 1 else None
                axes.axvline(sign * place, color=colour, linewidth=0.9, linestyle=":", label=label)
        axes.plot(xi, beta, color="black")
        axes.set(xlabel=r"$\xi$", ylabel=r"inverse temperature $\beta(\xi)$", ylim=(0.0, 1.08))
        figure = axes.get_figure()
        if figure is not None:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, columnspacing=1.2)

    return standalone(drawing(draw, "temperature-map"))


def _reach(target: Target) -> float:
    """Half the side of a square around the origin that holds the target."""
    if target.modes is not None:
        return 1.15 * float(jnp.max(jnp.abs(target.modes.centres)))
    return 4.0 * target.source_scale
