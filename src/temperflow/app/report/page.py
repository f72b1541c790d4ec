"""The page, put together: the verdict, the numbers, the pictures, and how to make it all again."""

import html
import json
from importlib import resources
from typing import Any

from temperflow.app.report import sections
from temperflow.app.report.command import command
from temperflow.app.report.measure import Measurements, measure
from temperflow.app.report.numbers import number, rows
from temperflow.app.report.sections import Gallery, section
from temperflow.app.report.subject import Subject

_MOODS = {"trusted": "good", "check": "fair", "not converged": "bad"}
# Headings of the comparison, and where `comparison.json` has them.
_COMPARED = {
    "W2": "w2",
    "floor": "w2_floor",
    "modes": "modes",
    "ESS": "ess",
    "energy calls": "energy_calls",
    "ELBO": "elbo",
    "EUBO": "eubo",
    "mode TV": "mode_tv",
    "seconds": "seconds",
}


def assemble(subject: Subject) -> tuple[str, dict[str, str]]:
    """The page as HTML, and its figures as files by name."""
    gallery, seen = Gallery(), None
    parts = [_head(subject), _verdict(subject)]
    target, built, sampler = subject.target, subject.built, subject.sampler
    if built is not None and sampler is not None:
        seen = measure(built, sampler, target, subject.settings.seed)
        parts += [
            _tiles(subject, seen),
            sections.draws(target, sampler, seen, gallery),
            _table(subject, seen),
            sections.exploration(sampler, seen, gallery),
            sections.residual(seen, gallery),
            sections.free_energy(sampler, seen, gallery),
        ]
    parts += [sections.learning(subject, gallery), _comparison(subject), _reproduce(subject, seen)]
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(target.name)}: temperflow report</title>
<style>{_asset("page.css")}</style></head>
<body>
{"".join(parts)}
<script>{_asset("page.js")}</script>
</body></html>
"""
    return page, gallery.files


def _head(subject: Subject) -> str:
    settings, target = subject.settings, subject.target
    seconds, device = subject.latest("seconds"), subject.latest("device")
    facts = [
        f"{target.dim} dimension{'s' if target.dim > 1 else ''}",
        f"recipe {settings.config.recipe}",
        f"seed {settings.seed}",
        "finished" if subject.finished else f"epoch {subject.epoch} of {settings.config.training.epochs}",
        *([f"{_duration(float(seconds))} of training"] if seconds else []),
        *([f"on {device}"] if device else []),
    ]
    lead = html.escape(" · ".join(facts))
    reference = f'<p class="note">{html.escape(target.reference)}</p>' if target.reference else ""
    return f'<header><h1>{html.escape(target.name)}</h1><p class="lead">{lead}</p>{reference}</header>'


def _verdict(subject: Subject) -> str:
    verdict, mood = subject.verdict, ""
    if not subject.finished:
        word = "not finished"
        reasons = [f"what follows is the newest checkpoint; temperflow resume {subject.path.name} goes on from it"]
    elif verdict is None:
        word, reasons = "not judged yet", ["temperflow evaluate writes a verdict with its reasons"]
    else:
        word = str(verdict["verdict"])
        reasons = [f"{reason['name']}: {reason['text']}" for reason in verdict["reasons"]]
        if word == "trusted":  # its reasons are all there are: they unfold below
            reasons = [f"nothing in {len(reasons)} findings speaks against the draws, used with their weights"]
        mood = _MOODS.get(word, "")
    items = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons)
    said = f"<strong>{html.escape(word)}</strong><ul>{items}</ul>{_findings(verdict)}"
    return f'<section class="verdict {mood}">{said}</section>'


def _findings(verdict: dict[str, Any] | None) -> str:
    """Everything that was looked at, the good included, for whoever unfolds it."""
    if verdict is None:
        return ""
    lines = "".join(
        f"<tr><td>{html.escape(each['name'])}</td><td>{each['level']}</td><td>{html.escape(each['text'])}</td></tr>"
        for each in verdict["findings"]
    )
    return f"<details><summary>all that was looked at</summary>{_scrolling(lines)}</details>"


def _tiles(subject: Subject, seen: Measurements) -> str:
    m, draws = subject.metrics or {}, seen.draws
    evidence = (float(draws.log_evidence), float(draws.log_evidence_error))
    if m:
        evidence = (m["log_evidence"], m["log_evidence_error"])
    tiles = [
        ("log Z", number(*evidence)),
        ("effective share (ESS)", number(m.get("ess", draws.ess))),
        ("k-hat of the weights", number(m.get("khat", draws.khat), digits=2)),
    ]
    if m.get("w2") is not None and m.get("w2_floor"):
        tiles.append(("W2 / its floor", number(m["w2"] / m["w2_floor"])))
    if m.get("modes_worst") is not None and subject.target.modes is not None:
        tiles.append(("modes, worst trial", f"{m['modes_worst']} of {subject.target.modes.shares.size}"))
    if calls := subject.latest("energy_calls"):
        tiles.append(("energy evaluations", f"{calls / 1e6:.3g} million" if calls >= 1e6 else f"{calls:,}"))
    boxes = "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles)
    return f'<section class="tiles">{boxes}</section>'


def _table(subject: Subject, seen: Measurements) -> str:
    m = subject.metrics
    source = f"the {len(seen.draws.x):,} draws of this page; temperflow evaluate measures more"
    if m is not None:
        source = f"{m['trials']} trials of {m['n']:,} draws"
    lines = "".join(
        f'<tr><td>{row.name}</td><td class="number">{row.value}</td><td class="number">{row.perfect}</td>'
        f'<td class="meaning">{row.meaning}</td></tr>'
        for row in rows(m, seen)
    )
    head = '<tr><th></th><th>value</th><th>perfect</th><th class="meaning">meaning</th></tr>'
    return section("Numbers", f'<p class="note">From {source}.</p>{_scrolling(head + lines)}')


def _comparison(subject: Subject) -> str:
    if subject.comparison is None:
        return ""
    lines: list[dict[str, Any]] = subject.comparison["rows"]
    head = "".join(f"<th>{title}</th>" for title in ("sampler", "log Z", *_COMPARED))
    body = "".join(
        f'<tr><td class="sampler">{html.escape(line["sampler"])}</td>'
        f'<td class="number">{number(line["log_evidence"], line["log_evidence_error"])}</td>'
        + "".join(f'<td class="number">{number(line.get(name))}</td>' for name in _COMPARED.values())
        + "</tr>"
        for line in lines
    )
    note = (
        f"{subject.comparison['n']:,} draws of each, all from the same source, the others at their defaults. "
        "W2, modes and mode TV are of equally weighted draws; the floor is what exact draws score. "
        "Energy calls of temperflow include its training; its seconds do not. Seconds include compiling what was new."
    )
    table = _scrolling(f"<tr>{head}</tr>{body}")
    return section("Beside other samplers", f'<p class="note">{note}</p>{table}')


def _reproduce(subject: Subject, seen: Measurements | None) -> str:
    settings = subject.settings
    config = html.escape(json.dumps(settings.to_dict(), indent=1, ensure_ascii=False))
    versions = html.escape(", ".join(f"{name} {version}" for name, version in subject.versions.items()))
    facts = []
    if subject.scale is not None:
        facts.append(f"The pilot found a domain of scale {number(subject.scale)}.")
    if seen is not None:
        facts.append(f"This page spent {seen.energy_calls:,} energy evaluations of its own.")
    noticed = "".join(
        f"<li>{html.escape(str(event.get('message') or event.get('reason')))}</li>"
        for event in subject.events
        if event["kind"] in ("warning", "refused", "rolled_back", "failed")
    )
    return section(
        "To reproduce",
        f'<pre class="command">{html.escape(command(settings, subject.path))}</pre>'
        f"{f'<p>Noticed on the way:</p><ul>{noticed}</ul>' if noticed else ''}"
        f'<p>{" ".join(facts)}</p><p class="note">{versions}</p>'
        f'<details class="printed"><summary>the exact configuration (config.json)</summary>'
        f"<pre>{config}</pre></details>",
    )


def _scrolling(table: str) -> str:
    return f'<div class="scroll"><table>{table}</table></div>'


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _asset(name: str) -> str:
    return resources.files("temperflow.app.report").joinpath(name).read_text(encoding="utf-8")
