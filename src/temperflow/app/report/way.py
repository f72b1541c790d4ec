"""The particles' way from source to target: a slider over t, and still pictures where there is none."""

import base64
import json

import numpy as np
from matplotlib.figure import Figure

from temperflow.app.report.measure import FRAMES, PARTICLES, Measurements, Values
from temperflow.app.report.plane import Plane, contours
from temperflow.app.report.style import inline, picture

# Positions travel as 16-bit fractions of the plane; a particle outside shows at most this far out.
UNIT, REACH = 16_000, 2.0


def slider(shown: Plane, seen: Measurements, tempered: bool) -> str:
    """HTML of the stage, its controls and the data that `page.js` moves."""
    flow = {"times": _even(len(seen.way)), "x": _packed(shown, seen.way)}
    tracks = {"flow": flow}
    choice = ""
    if tempered:
        slices = np.unique(np.round(np.linspace(0, seen.after.times.size - 1, FRAMES)).astype(int))
        walkers = slice(0, PARTICLES)
        tracks["proposal"] = {
            "times": np.round(seen.after.times[slices], 4).tolist(),
            "x": _packed(shown, seen.after.x[slices][:, walkers]),
            "beta": _shades(seen.after.beta[slices][:, walkers]),
        }
        choice = (
            '<label><input type="radio" name="track" value="flow" checked> the flow (draws)</label>'
            '<label><input type="radio" name="track" value="proposal"> the proposal (training), by temperature</label>'
        )
    data = json.dumps({"unit": UNIT, "tracks": tracks}, separators=(",", ":"))
    return f"""<div class="way" id="way">
<div class="stage">{_backdrop(shown)}<canvas width="900" height="900" aria-label="particles at time t"></canvas></div>
<div class="controls"><button type="button">play</button>
<input type="range" min="0" max="1000" value="1000" aria-label="time t"><output>t = 1.00</output></div>
<div class="choice">{choice}</div>
<script type="application/json">{data}</script></div>"""


def _backdrop(shown: Plane) -> str:
    """The target's outlines over the whole stage, without a frame."""

    def draw(figure: Figure) -> None:
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        contours(axes, shown)
        axes.set_xlim(shown.low[0], shown.high[0])
        axes.set_ylim(shown.low[1], shown.high[1])
        axes.set_axis_off()

    return inline(picture(draw, "backdrop", width=4.6, height=4.6), "outlines of the target")


def _even(frames: int) -> list[float]:
    return np.round(np.linspace(0.0, 1.0, frames), 4).tolist()


def _packed(shown: Plane, x: Values) -> str:
    """(frames, particles, 2) as little-endian 16-bit fractions of the plane, in base64."""
    fraction = (shown.of(x) - shown.low) / (shown.high - shown.low)
    fraction = np.clip(np.nan_to_num(fraction, nan=REACH, posinf=REACH, neginf=1.0 - REACH), 1.0 - REACH, REACH)
    return base64.b64encode(np.round(fraction * UNIT).astype("<i2").tobytes()).decode()


def _shades(beta: Values) -> str:
    """β as a byte, 255 the target's temperature, spread evenly over its logarithm."""
    low = np.log(beta.min())
    scaled = 1.0 - np.log(beta) / low if low < 0 else np.ones_like(beta)
    return base64.b64encode(np.round(255 * scaled).astype(np.uint8).tobytes()).decode()
