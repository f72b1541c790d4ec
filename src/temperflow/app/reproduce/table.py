"""The table of an experiment in Markdown, the paper's figures beside ours where it has any."""

from typing import Any

from temperflow.app.reproduce.rows import PUBLISHED

_HEAD = (
    "row", "seeds", "W2", "/ floor", "ELBO", "EUBO", "ESS", "forward", "modes, worst", "mode TV (exact)", "log Z",
    "calls", "seconds",
)  # fmt: skip


def table(summaries: list[dict[str, Any]], title: str) -> str:
    """The whole page.

    Args:
        summaries: of `records.summaries`.
        title: its first line.
    """
    lines = [f"# {title}", "", *_published(summaries), "## Measured", "", *_rows(_HEAD, map(_cells, summaries)), ""]
    return "\n".join([*lines, *_NOTES, ""])


_NOTES = (
    "Every figure is mean ± standard deviation over training seeds (± mean standard deviation over evaluation "
    "redraws). Bounds are of the exact density of the map that draws. An infinite bound has its mean over the points "
    "whose density is known in brackets, which is no bound, and the share of the others. Seconds are of one program "
    "that trains all seeds of a row, compilation included; energy calls are of one seed.",
)


def _published(summaries: list[dict[str, Any]]) -> list[str]:
    """The paper's columns beside ours, in its order."""
    ours = {summary["row"]: summary for summary in summaries}
    rows = [
        (
            paper.label,
            *(
                part
                for name in ("w2", "elbo", "eubo")
                for part in (_plain(*getattr(paper, name)), _cell(ours[row], name))
            ),
        )
        for row, paper in PUBLISHED.items()
        if row in ours
    ]
    if not rows:
        return []
    head = ("proposal", "W2, paper", "W2, here", "ELBO, paper", "ELBO, here", "EUBO, paper", "EUBO, here")
    return ["## Beside the paper", "", *_rows(head, rows), ""]


def _rows(head: Any, rows: Any) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def _cells(summary: dict[str, Any]) -> list[str]:
    return [
        summary["row"] if "/" in summary["row"] else f"{summary['row']}, {summary['target']}",
        _seeds(summary),
        _cell(summary, "w2"),
        _ratio(summary),
        _cell(summary, "elbo"),
        _cell(summary, "eubo"),
        _cell(summary, "ess"),
        _cell(summary, "ess_forward"),
        _modes(summary),
        f"{_cell(summary, 'mode_tv')} ({_mean(summary, 'mode_tv_floor')})",
        _cell(summary, "log_evidence"),
        _mean(summary, "energy_calls", ".3g"),
        _mean(summary, "train_seconds", ".0f"),
    ]


def _seeds(summary: dict[str, Any]) -> str:
    diverged = summary["diverged"]
    return str(len(summary["seeds"])) + (f", {diverged} diverged" if diverged else "")


def _cell(summary: dict[str, Any], name: str) -> str:
    found = summary.get(name)
    if found is not None:
        return _plain(found["mean"], found["over_seeds"], found["over_redraws"])
    if summary["diverged"] == len(summary["seeds"]):
        return "diverged"
    known, share = summary.get(f"{name}_where_known"), {"elbo": "weightless", "eubo": "unknown_density"}.get(name)
    if known is None or share is None or summary.get(share) is None:
        return "–"
    sign = "-" if name == "elbo" else ""
    return f"{sign}∞ [{known['mean']:.2f}, without {100 * summary[share]['mean']:.2g} %]"


def _plain(value: float, *spreads: float | None) -> str:
    """A number and its spreads, the second in brackets."""
    first, *rest = [*spreads, None]
    text = f"{value:.2f}" + ("" if first is None else f" ± {first:.2f}")
    return text + "".join(f" (± {spread:.2f})" for spread in rest if spread is not None)


def _mean(summary: dict[str, Any], name: str, shape: str = ".2f") -> str:
    return "–" if summary.get(name) is None else format(summary[name]["mean"], shape)


def _ratio(summary: dict[str, Any]) -> str:
    if summary.get("w2") is None or summary.get("w2_floor") is None:
        return "–"
    return f"{summary['w2']['mean'] / summary['w2_floor']['mean']:.2f}"


def _modes(summary: dict[str, Any]) -> str:
    worst = summary["modes_worst"]
    return "–" if worst is None else f"{_mean(summary, 'modes', '.1f')}, {worst}"
