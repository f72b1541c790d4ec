"""The plane that draws are shown in: which two coordinates, what extent, and the target behind them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from scipy.ndimage import label

from temperflow.app.report.measure import Measurements, Values
from temperflow.app.report.style import FAINT
from temperflow.targets import Target

GRID = 320
# Nats under the highest point: where one, two and three standard deviations of a round mode end.
DEPTHS = (4.5, 2.0, 0.5)
MASSES = (0.99, 0.9, 0.5)
# Cells of the grid that an outline should hold on average, besides the outermost: some five points across.
LEAST_AREA = 150


@dataclass(frozen=True)
class Plane:
    """Two coordinates, their extent, and the target's height over them.

    Args:
        pair: the coordinates shown, numbered from 0; twice the same in one dimension.
        low, high: the corners.
        height: values over the grid, rows the second coordinate; None where there is nothing to show.
        levels: the contours of them.
        meaning: what the contours are, in words.
    """

    pair: tuple[int, int]
    low: Values
    high: Values
    height: Values | None
    levels: tuple[float, ...]
    meaning: str

    def of(self, x: Values) -> Values:
        """The two coordinates of points (trailing axis)."""
        return np.stack([x[..., self.pair[0]], x[..., self.pair[1]]], axis=-1)

    @property
    def labels(self) -> tuple[str, str]:
        """How the axes are called."""
        return f"$x_{{{self.pair[0] + 1}}}$", f"$x_{{{self.pair[1] + 1}}}$"


def plane(target: Target, seen: Measurements) -> Plane:
    """Choose the pair and the extent, and evaluate what lies behind the draws.

    In two dimensions that is the target's own density. In more it is a marginal nobody can
    evaluate: a histogram of exact draws stands in, or of annealed ones where there are none.
    """
    x = np.asarray(seen.draws.x, np.float64)
    x = x[np.all(np.isfinite(x), axis=1)]
    shown = np.concatenate([x, _elsewhere(target, seen)])
    pair = (0, min(1, target.dim - 1)) if target.dim <= 2 else most_structured(shown)
    low, high = _extent(shown[:, list(pair)])
    if target.dim == 2:
        return Plane(pair, low, high, *_density(target, low, high), "the target's density")
    if seen.reference is None:
        return Plane(pair, low, high, None, (), "")
    height, levels = _histogram(seen.reference[:, list(pair)], low, high)
    kind = "exact draws of the target" if seen.reference_is_exact else "annealed, weighted draws"
    return Plane(pair, low, high, height, levels, f"{kind}; half, nine tenths and 99 % of them")


def _elsewhere(target: Target, seen: Measurements) -> Values:
    """Points to make room for beside the flow's draws: a mode that they miss should be seen to be missed."""
    if seen.reference is not None:
        return seen.reference
    if target.sample is not None:
        return np.asarray(target.sample(jax.random.key(0), len(seen.draws.x)), np.float64)
    last = seen.after.x[-1][seen.after.beta[-1] == 1.0]
    return last[np.all(np.isfinite(last), axis=1)]


def most_structured(x: Values) -> tuple[int, int]:
    """The two coordinates furthest from a single bump, by Sarle's coefficient (skewness² + 1) / kurtosis.

    >>> import numpy as np
    >>> wave = np.linspace(0.0, 60.0, 4001)
    >>> most_structured(np.stack([np.sin(wave) ** 9, np.sign(np.sin(wave)) * 1.0, np.cos(3 * wave)], axis=1))
    (1, 2)
    """
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    kurtosis = np.maximum(np.mean(z**4, axis=0), 1e-12)
    score = np.where(spread > 0, (np.mean(z**3, axis=0) ** 2 + 1.0) / kurtosis, 0.0)
    first, second = sorted(np.argsort(-score, kind="stable")[:2].tolist())
    return int(first), int(second)


def contours(axes: Axes, shown: Plane, colour: str = FAINT) -> None:
    """The target's outlines."""
    if shown.height is None or not shown.levels:
        return
    across = np.linspace(shown.low[0], shown.high[0], shown.height.shape[1])
    up = np.linspace(shown.low[1], shown.high[1], shown.height.shape[0])
    axes.contour(across, up, shown.height, levels=shown.levels, colors=colour, linewidths=0.7, linestyles="solid")


def framed(axes: Axes, shown: Plane) -> None:
    """The plane's extent and names."""
    axes.set_xlim(shown.low[0], shown.high[0])
    axes.set_ylim(shown.low[1], shown.high[1])
    axes.set_xlabel(shown.labels[0])
    axes.set_ylabel(shown.labels[1])
    if np.isclose(*(shown.high - shown.low)):
        axes.set_aspect("equal")


def _extent(x: Values) -> tuple[Values, Values]:
    """Nearly all points with a margin; a square where the two coordinates are of like size."""
    low, high = np.quantile(x, 0.002, axis=0), np.quantile(x, 0.998, axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-6) * 1.12
    if half.max() < 2.5 * half.min():
        half = np.full(2, half.max())
    return middle - half, middle + half


def _density(target: Target, low: Values, high: Values) -> tuple[Values, tuple[float, ...]]:
    across, up = (np.linspace(low[i], high[i], GRID) for i in (0, 1))
    points = jnp.asarray(np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2), jnp.float32)
    heights = jax.jit(lambda rows: jax.lax.map(target.log_density, rows, batch_size=8192))(points)
    values = np.asarray(heights, np.float64).reshape(GRID, GRID)
    top = np.max(values[np.isfinite(values)], initial=-np.inf)
    if not np.isfinite(top):
        return values, ()
    values = np.maximum(np.nan_to_num(values, nan=-np.inf), top - 50.0)
    return values, _legible(values, tuple(top - depth for depth in DEPTHS))


def _legible(values: Values, levels: tuple[float, ...]) -> tuple[float, ...]:
    """The lowest level, and those above it whose outlines are more than a blot."""
    kept = [levels[0]]
    for level in levels[1:]:
        above = values > level
        islands: Any = label(above)
        if above.sum() >= LEAST_AREA * max(islands[1], 1):
            kept.append(level)
    return tuple(kept)


def _histogram(x: Values, low: Values, high: Values) -> tuple[Values, tuple[float, ...]]:
    """A smoothed histogram and the levels that hold given shares of it."""
    bins = 64
    counts, _, _ = np.histogram2d(x[:, 1], x[:, 0], bins=bins, range=[(low[1], high[1]), (low[0], high[0])])
    kernel = np.exp(-0.5 * (np.arange(-4, 5) / 1.3) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        counts = np.apply_along_axis(lambda row: np.convolve(row, kernel, mode="same"), axis, counts)
    falling = np.sort(counts.ravel())[::-1]
    held = np.cumsum(falling) / max(falling.sum(), 1e-300)
    levels = sorted({float(falling[np.searchsorted(held, mass)]) for mass in MASSES})
    return counts, tuple(level for level in levels if level > 0)
