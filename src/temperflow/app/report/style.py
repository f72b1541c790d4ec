"""How the figures look: one palette, one size, and ink that follows the page's light or dark."""

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

# Drawn in these and then replaced by the page's own colours; as a file they stand for themselves.
INK, PAPER, FAINT = "#1b2530", "#fdfdfc", "#8b96a3"
COLD, HOT, TRUTH, PALE = "#3a76b8", "#d4663b", "#2f9177", "#a9b4c0"
# From nothing to much; readable on light and on dark.
AMOUNT = LinearSegmentedColormap.from_list("amount", ["#dfe9f2", "#8fb5d9", "#3a76b8", "#1f3f68"])
HEAT = LinearSegmentedColormap.from_list("heat", [HOT, "#c9a27c", "#8fa3b5", COLD])
WIDTH, HEIGHT = 4.6, 3.3

_SETTINGS = {
    "figure.dpi": 72,
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "lines.linewidth": 1.4,
    "svg.fonttype": "path",
    "image.interpolation": "nearest",
}
_DRAWN_IN = {INK: "currentColor", FAINT: "var(--faint)", PAPER: "var(--paper)"}


def drawing(draw: Callable[[Axes], None], name: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """One pair of axes, drawn on by `draw`, as an SVG of fixed colours."""

    def on_figure(figure: Figure) -> None:
        draw(figure.add_subplot())

    return picture(on_figure, name, width, height)


def picture(draw: Callable[[Figure], None], name: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """A whole figure, drawn on by `draw`, as an SVG of fixed colours.

    Args:
        draw: puts the contents in.
        name: makes the identifiers in it differ from those of other figures on the page.
        width: in inches; at 4.6 the type is as large as the page's on a telephone.
        height: in inches.
    """
    settings: dict[Any, Any] = {**_SETTINGS, "svg.hashsalt": name}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", dpi=200, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def legend(axes: Axes) -> None:
    """Above the axes, where it hides nothing."""
    figure = axes.get_figure()
    if figure is not None:
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, columnspacing=1.2)


def plain_logarithm(axis: Axis) -> None:
    """Ticks of a logarithmic axis as plain numbers, few enough to read."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def inline(svg: str, label: str) -> str:
    """The drawing as part of a page: ink follows the page, size follows the column, and it has a name."""
    start = svg.index("<svg")
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[start:], flags=re.DOTALL)
    for drawn, shown in _DRAWN_IN.items():
        body = body.replace(drawn, shown)
    head, rest = body.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{label}">{rest}'


def standalone(svg: str) -> str:
    """The drawing as a file: on paper, since nobody knows what lies behind it."""
    head, rest = svg[svg.index("<svg") :].split(">", 1)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>\n<rect width="100%" height="100%" fill="{PAPER}"/>{rest}'
