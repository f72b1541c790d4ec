"""The page's pictured sections: what each figure is of, in a sentence below it."""

import html

import numpy as np

from temperflow.app.report import curves, figures
from temperflow.app.report.free_energy import over_temperature, over_time
from temperflow.app.report.measure import Measurements
from temperflow.app.report.plane import plane
from temperflow.app.report.style import inline, standalone
from temperflow.app.report.subject import Subject
from temperflow.app.report.way import slider
from temperflow.sampling import Sampler
from temperflow.targets import Target

_CAPTIONS = {
    "temperatures": "Inverse temperatures of the proposal's walkers at t = 1, untrained and trained, from the same "
    "seed. Walkers that pool at one end mean that F is wrong there.",
    "ess": "Effective share of the exact path weights of a fresh rollout, by time and temperature. "
    "Where it falls, the walkers have moved away from the path's densities.",
    "residual": "Residual of the continuity equation at fresh locations: zero where transport and free energy are "
    "exact. Where it is largest, more training or finer features would help most.",
    "weights": "Log weights of the flow's draws about the mean weight. A narrow bump is good; a tail to the right is "
    "mass that the flow reaches too rarely. The lowest hundredth stands at the left edge.",
    "way": "The flow's particles on their way from source to target.",
    "line": "Draws of the flow, unweighted, and the target's density normalised by the estimated evidence.",
    "free-energy-time": "F along the path at the target's temperature. Its end is minus log Z.",
    "free-energy-beta": "F at t = 1 by temperature. Wide error bars mean few effective walkers there.",
    "curve-residual": "Loss of the updates, and what residual the averaged parameters leave.",
    "curve-exploration": "The training rollouts, epoch by epoch.",
    "curve-evidence": "Two estimates of log Z that should meet.",
}


class Gallery:
    """Figures on their way into the page, kept as files as well."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def hang(self, name: str, svg: str, caption: str = "", kind: str = "") -> str:
        """The HTML of one figure; the caption is that of its name unless another is given."""
        self.files[name] = standalone(svg)
        words = html.escape(caption or _CAPTIONS[name])
        return f'<figure class="{kind}">{inline(svg, words)}<figcaption>{words}</figcaption></figure>'


def section(title: str, content: str) -> str:
    """A part of the page."""
    return f"<section><h2>{title}</h2>{content}</section>"


def draws(target: Target, sampler: Sampler, seen: Measurements, gallery: Gallery) -> str:
    """The draws, and the particles' way to them."""
    if target.dim == 1:
        histogram = gallery.hang("draws", figures.draws_on_a_line(target, seen), _CAPTIONS["line"])
        return section("Draws", _pair(histogram, gallery.hang("way", figures.way_on_a_line(seen.way))))
    shown = plane(target, seen)
    pair = "" if target.dim == 2 else "The two coordinates with the most structure. "
    behind = f"Outlines: {shown.meaning}." if shown.meaning else ""
    scatter = gallery.hang(
        "draws", figures.draws(shown, seen), f"{len(seen.draws.x):,} unweighted draws of the flow. {pair}{behind}"
    )
    moving = slider(shown, seen, sampler.proposal.joint.tempering is not None)
    still = gallery.hang("way", figures.stations(shown, seen.way), kind="wide still")
    moving += '<p class="note moves">The particles’ way from source (t = 0) to target (t = 1).</p>'
    return section("Draws", f'<div class="pair">{scatter}<div>{moving}</div></div>{still}')


def exploration(sampler: Sampler, seen: Measurements, gallery: Gallery) -> str:
    """Temperatures before and after training; effective walkers."""
    joint = sampler.proposal.joint
    if joint.tempering is None:
        first = "<p>This recipe does not temper: every walker stays at β = 1.</p>"
    else:
        first = gallery.hang("temperatures", figures.temperatures(seen.before, seen.after, joint))
    return section("Exploration", _pair(first, gallery.hang("ess", figures.ess_map(seen.maps))))


def residual(seen: Measurements, gallery: Gallery) -> str:
    """What training has left undone."""
    log_weight = np.asarray(seen.draws.log_weight, np.float64)
    weights = figures.weights(log_weight, float(seen.draws.log_evidence))
    return section(
        "What training has left",
        _pair(gallery.hang("residual", figures.residual_map(seen.maps)), gallery.hang("weights", weights)),
    )


def free_energy(sampler: Sampler, seen: Measurements, gallery: Gallery) -> str:
    """F held against estimates."""
    parts = [gallery.hang("free-energy-time", figures.free_energy_over_time(over_time(sampler, seen.after)))]
    found = over_temperature(sampler, seen.after)
    if found is not None:
        parts.append(gallery.hang("free-energy-beta", figures.free_energy_over_temperature(found)))
    return section("Free energy", _pair(*parts))


def learning(subject: Subject, gallery: Gallery) -> str:
    """The curves."""
    epochs = subject.epochs
    if len(epochs) < 2:
        return section("Learning", "<p>Fewer than two epochs have been recorded.</p>")
    return section(
        "Learning",
        _pair(
            gallery.hang("curve-residual", curves.residual(epochs)),
            gallery.hang("curve-exploration", curves.exploration(epochs)),
            gallery.hang("curve-evidence", curves.evidence(epochs, subject.target.log_evidence)),
        ),
    )


def _pair(*parts: str) -> str:
    return f'<div class="pair">{"".join(parts)}</div>'
