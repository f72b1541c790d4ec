"""The report's pictures, one function each, from measurements to SVG."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from temperflow.app.report.free_energy import Comparison
from temperflow.app.report.measure import Exploration, Maps, Measurements, Values
from temperflow.app.report.plane import Plane, contours, framed
from temperflow.app.report.style import AMOUNT, COLD, HOT, INK, PALE, drawing, legend, picture, plain_logarithm
from temperflow.proposals import JointDensity
from temperflow.targets import Target

# Particles whose ways are still told apart by eye.
LINES = 120


def draws(shown: Plane, seen: Measurements) -> str:
    """Draws of the flow over the target's outlines."""
    x = shown.of(np.asarray(seen.draws.x, np.float64))

    def draw(axes: Axes) -> None:
        axes.scatter(x[:, 0], x[:, 1], s=3.0, color=COLD, alpha=0.55, linewidths=0, rasterized=True)
        contours(axes, shown)
        framed(axes, shown)

    return drawing(draw, "draws", height=4.2)


def draws_on_a_line(target: Target, seen: Measurements) -> str:
    """In one dimension: the draws' histogram under the target's normalised density."""
    x = np.asarray(seen.draws.x, np.float64)[:, 0]
    x = x[np.isfinite(x)]
    low, high = np.quantile(x, [0.001, 0.999])
    margin = 0.15 * (high - low)
    line = np.linspace(low - margin, high + margin, 800)
    heights = jax.vmap(target.log_density)(jnp.asarray(line[:, None], jnp.float32))
    height = np.exp(np.asarray(heights, np.float64) - float(seen.draws.log_evidence))

    def draw(axes: Axes) -> None:
        axes.hist(x, bins=80, range=(line[0], line[-1]), density=True, color=COLD, alpha=0.55)
        axes.plot(line, height, color=INK, linewidth=1.0)
        axes.set_xlabel("$x$")
        axes.set_ylabel("density")

    return drawing(draw, "draws")


def way_on_a_line(way: Values) -> str:
    """In one dimension: the particles' positions over time."""

    def draw(axes: Axes) -> None:
        times = np.linspace(0.0, 1.0, len(way))
        axes.plot(times, way[:, :LINES, 0], color=COLD, alpha=0.35, linewidth=0.6)
        axes.set_xlabel("$t$")
        axes.set_ylabel("$x$")

    return drawing(draw, "way")


def stations(shown: Plane, way: Values) -> str:
    """The particles at five times, for paper and for readers without scripts."""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 5, sharex=True, sharey=True)
        for axes, share in zip(panels, np.linspace(0, 1, 5), strict=True):
            x = shown.of(way[round(share * (len(way) - 1))])
            contours(axes, shown)
            axes.scatter(x[:, 0], x[:, 1], s=2.0, color=COLD, alpha=0.7, linewidths=0, rasterized=True)
            framed(axes, shown)
            axes.set_title(f"$t = {share:g}$")
            axes.set(xlabel="", ylabel="", xticks=[], yticks=[])

    return picture(draw, "stations", width=9.2, height=2.1)


def temperatures(before: Exploration, after: Exploration, joint: JointDensity) -> str:
    """The paper's figure: inverse temperatures at t = 1 before and after training."""
    assert joint.tempering is not None
    hottest = joint.tempering.map.hottest
    edges = np.linspace(hottest, 1.0, 21)
    aim = _shares(_aim(joint), edges)

    def draw(axes: Axes) -> None:
        middle, width = (edges[:-1] + edges[1:]) / 2, edges[1] - edges[0]
        for offset, seen, colour, label in (
            (-0.22, before, PALE, "before training"),
            (0.22, after, COLD, "after training"),
        ):
            shares = _shares(seen.beta[-1], edges)
            axes.bar(middle + offset * width, shares, 0.44 * width, color=colour, label=label)
        axes.stairs(aim, edges, color=HOT, linewidth=1.2, label=r"if $F_\theta$ were exact")
        axes.set_xlabel(r"inverse temperature $\beta$ at $t = 1$ (1 is the target)")
        axes.set_ylabel("share of the walkers")
        legend(axes)

    return drawing(draw, "temperatures")


def residual_map(maps: Maps) -> str:
    """Root mean square residual over time and temperature."""
    found = maps.residual[np.isfinite(maps.residual) & (maps.residual > 0)]
    low, high = (found.min(), found.max()) if found.size else (1e-3, 1.0)
    norm = LogNorm(low, max(high, 1.01 * low))
    if maps.residual.shape[1] > 1:
        return _heat_map("residual", maps, maps.residual, norm, "rms residual [nats per unit time]")
    return _over_time("residual", maps, maps.residual[:, 0], "rms residual [nats per unit time]", log=True)


def ess_map(maps: Maps) -> str:
    """Effective share of the path weights over time and temperature."""
    if maps.ess.shape[1] > 1:
        return _heat_map("ess", maps, maps.ess, Normalize(0.0, 1.0), "effective share of the walkers")
    return _over_time("ess", maps, maps.ess[:, 0], "effective share of the walkers", log=False)


def weights(log_weight: Values, log_evidence: float) -> str:
    """Log weights of the flow's draws around their mean weight."""
    values = log_weight[np.isfinite(log_weight)] - log_evidence

    def draw(axes: Axes) -> None:
        low, high = (np.quantile(values, [0.01, 1.0])) if values.size else (-1.0, 1.0)
        axes.hist(np.clip(values, low, high), bins=60, range=(low, max(high, low + 1e-3)), color=COLD, alpha=0.8)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        axes.set_xlabel(r"$\log w - \log \hat Z$ [nats] (0 for every draw of a perfect map)")
        axes.set_ylabel("draws")

    return drawing(draw, "weights")


def free_energy_over_time(found: Comparison) -> str:
    """F_t(1): learned and estimated."""
    return _comparison("free-energy-time", found, "$t$", r"$F_t(\beta = 1)$ [nats]")


def free_energy_over_temperature(found: Comparison) -> str:
    """F_1(β): learned and estimated."""
    return _comparison("free-energy-beta", found, r"$\beta$", r"$F_1(\beta)$ [nats]")


def _comparison(name: str, found: Comparison, across: str, up: str) -> str:
    def draw(axes: Axes) -> None:
        axes.plot(*found.line, color=COLD, label=r"learned $F_\theta$")
        known = np.isfinite(found.estimate)
        style = {"color": HOT, "linestyle": "none", "marker": "o", "markersize": 2.6, "elinewidth": 0.8}
        step = max(1, known.size // 40)
        place, value, error = (each[known][::step] for each in (found.place, found.estimate, found.error))
        axes.errorbar(place, value, 2 * error, label="from path weights, ±2 errors", **style)  # pyright: ignore
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        legend(axes)

    return drawing(draw, name)


def _heat_map(name: str, maps: Maps, values: Values, norm: Normalize, label: str) -> str:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        rows = np.arange(values.shape[1] + 1)
        mesh = axes.pcolormesh(maps.t_edges, rows, values.T, cmap=AMOUNT, norm=norm, rasterized=True)
        axes.set_yticks(rows[:-1] + 0.5, _cell_names(maps.beta_edges))
        axes.set_xlabel("$t$")
        axes.set_ylabel(r"$\beta$")
        bar = figure.colorbar(mesh, ax=axes, label=label)
        bar.outline.set_linewidth(0.0)  # pyright: ignore[reportCallIssue]
        if isinstance(norm, LogNorm):
            plain_logarithm(bar.ax.yaxis)

    return picture(draw, name)


def _cell_names(edges: Values) -> list[str]:
    inner = [f"{low:.2f}–{high:.2f}" for low, high in itertools.pairwise(edges[1:-1])]
    return [f"{(edges[0] + edges[1]) / 2:.2g} (hot)", *inner, "1 (cold)"]


def _over_time(name: str, maps: Maps, values: Values, label: str, log: bool) -> str:
    def draw(axes: Axes) -> None:
        axes.stairs(values, maps.t_edges, color=COLD, baseline=None)
        axes.set_xlabel("$t$")
        axes.set_ylabel(label)
        if log:
            axes.set_yscale("log")
            plain_logarithm(axes.yaxis)
        else:
            axes.set_ylim(0.0, 1.0)

    return drawing(draw, name)


def _aim(joint: JointDensity) -> Values:
    r"""β at quantiles of $e^{\psi'}$, what the walkers' temperatures would be if F were exact."""
    assert joint.tempering is not None
    walls = joint.tempering.confinement
    xi = jnp.linspace(0.0, walls.edge + 6.0 / walls.sharpness**0.5, 20_001)
    density = np.exp(np.asarray(jax.vmap(walls)(xi), np.float64))
    cumulative = np.cumsum(density) / density.sum()
    places = np.interp((np.arange(20_000) + 0.5) / 20_000, cumulative, np.asarray(xi, np.float64))
    return np.asarray(jax.vmap(joint.beta)(jnp.asarray(places, jnp.float32)), np.float64)


def _shares(beta: Values, edges: Values) -> Values:
    inside = np.clip(beta, edges[0], edges[-1])
    return np.histogram(inside, edges)[0] / beta.size
