"""The table of an experiment in Markdown, a paper's figures beside ours where it has any."""

from collections.abc import Iterable, Sequence
from typing import Any

from temperflow.app.reproduce.rows import Experiment

_HEAD = (
    "row", "target", "seeds", "W2", "/ floor", "ELBO", "EUBO", "ESS", "forward", "modes, worst", "mode TV (exact)",
    "log Z", "residual", "lost", "calls", "seconds",
)  # fmt: skip


def page(experiment: Experiment, data: dict[str, Any], pictures: Sequence[str]) -> str:
    """The whole page.

    Args:
        experiment: for its title, and for a paper's figures.
        data: of `records.document`.
        pictures: files to show, relative to the page.
    """
    rows = data["rows"]
    lines = [f"# {experiment.title}", "", _evaluation(data), ""]
    if data["missing"]:
        lines += ["Not there yet:", "", *(f"* {line}" for line in data["missing"]), ""]
    lines += [*_published(experiment, rows), "## Measured", ""]
    lines += [*_rows(_HEAD, map(_cells, rows)), "", _NOTES, "", *_changed(rows), *_trouble(data["records"])]
    lines += [f"![{name}]({name})" for name in pictures]
    return "\n".join([*lines, "", "## Made by", "", *_origins(data["records"]), ""])


_NOTES = (
    "Every figure is mean ± standard deviation over training seeds (± mean standard deviation over evaluation "
    "redraws); a seed that diverged is counted and left out. Bounds are of the exact density of the map that draws. "
    "An infinite bound has its mean over the points whose density is known in brackets, which is no bound, and the "
    "share of the others. Lost is the share of training locations without finite numbers. Seconds are of one program "
    "that trains all seeds of a row, compilation included; energy calls are of one seed."
)


def _evaluation(data: dict[str, Any]) -> str:
    times = "once" if data["trials"] == 1 else f"{data['trials']} times"
    return f"Evaluated on {data['n']} draws, {times} for every training seed. No checkpoint was chosen by any figure."


def _published(experiment: Experiment, rows: list[dict[str, Any]]) -> list[str]:
    """The paper's columns beside ours, in its order."""
    ours = {row["row"]: row for row in rows}
    beside = [
        (
            paper.label,
            *(
                part
                for name in ("w2", "elbo", "eubo")
                for part in (_plain(*getattr(paper, name)), _cell(ours[row], name))
            ),
        )
        for row, paper in experiment.published.items()
        if row in ours
    ]
    if not beside:
        return []
    head = ("proposal", "W2, paper", "W2, here", "ELBO, paper", "ELBO, here", "EUBO, paper", "EUBO, here")
    return ["## Beside the paper", "", *_rows(head, beside), "", _PAPERS_SPREAD, ""]


_PAPERS_SPREAD = (
    "The paper's spreads are over evaluation redraws of one training run. Its ELBO and EUBO rest on the divergence "
    "along the way in place of the map's log-determinant, and are not quite bounds."
)


def _changed(rows: list[dict[str, Any]]) -> list[str]:
    """What was set otherwise than the recipe has it: nobody shall take a short run for the real one."""
    found = [
        f"* {row['row']}, {row['target']}: "
        + "; ".join(f"`{name}` {now!r} (recipe: {before!r})" for name, (before, now) in row["changed"].items())
        for row in rows
        if row["changed"]
    ]
    return ["Settings other than the recipe's:", "", *found, ""] if found else []


def _trouble(records: list[dict[str, Any]]) -> list[str]:
    """Seeds that were in trouble, for good or for a while."""
    found = [
        f"* {one['row']}, {one['target']}, seed {one['seed']}: {one['trouble']['what']} in epoch "
        f"{one['trouble']['first']}; {one['trouble']['epochs']} such epochs, the last {one['trouble']['last']} of "
        f"{one['epochs']}{', so it diverged' if one['status'] == 'diverged' else ''}"
        for one in records
        if one["trouble"]
    ]
    return ["Trouble in training:", "", *found, ""] if found else []


def _origins(records: list[dict[str, Any]]) -> list[str]:
    """Commands, commits, devices and versions, each once."""
    found = dict.fromkeys(
        f"* `{one['command']}` at {one['commit']} on {one['device']} ("
        + ", ".join(f"{name} {version}" for name, version in one["versions"].items())
        + ")"
        for one in records
    )
    return list(found) or ["Nothing yet."]


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["row"],
        row["target"],
        _seeds(row),
        _cell(row, "w2"),
        _ratio(row),
        _cell(row, "elbo"),
        _cell(row, "eubo"),
        _cell(row, "ess"),
        _cell(row, "ess_forward"),
        _modes(row),
        f"{_cell(row, 'mode_tv')} ({_mean(row, 'mode_tv_floor')})",
        _cell(row, "log_evidence"),
        _mean(row, "residual", ".3g"),
        _share(row, "dropped"),
        _mean(row, "energy_calls", ".3g"),
        _mean(row, "train_seconds", ".0f"),
    ]


def _seeds(row: dict[str, Any]) -> str:
    diverged = row["diverged"]
    return str(len(row["seeds"])) + (f", {diverged} diverged" if diverged else "")


def _cell(row: dict[str, Any], name: str) -> str:
    found = row.get(name)
    if found is not None:
        return _plain(found["mean"], found["over_seeds"], found["over_redraws"])
    if row["diverged"] == len(row["seeds"]):
        return "diverged"
    known, share = row.get(f"{name}_where_known"), {"elbo": "weightless", "eubo": "unknown_density"}.get(name)
    if known is None or share is None or row.get(share) is None:
        return "–"
    sign = "-" if name == "elbo" else ""
    return f"{sign}∞ [{known['mean']:.2f}, without {100 * row[share]['mean']:.2g} %]"


def _plain(value: float, *spreads: float | None) -> str:
    """A number and its spreads, the second in brackets."""
    first, *rest = [*spreads, None]
    text = f"{value:.2f}" + ("" if first is None else f" ± {first:.2f}")
    return text + "".join(f" (± {spread:.2f})" for spread in rest if spread is not None)


def _mean(row: dict[str, Any], name: str, shape: str = ".2f") -> str:
    return "–" if row.get(name) is None else format(row[name]["mean"], shape)


def _share(row: dict[str, Any], name: str) -> str:
    return "–" if row.get(name) is None else f"{100 * row[name]['mean']:.2g} %"


def _ratio(row: dict[str, Any]) -> str:
    if row.get("w2") is None or row.get("w2_floor") is None:
        return "–"
    return f"{row['w2']['mean'] / row['w2_floor']['mean']:.2f}"


def _modes(row: dict[str, Any]) -> str:
    worst = row["modes_worst"]
    return "–" if worst is None else f"{_mean(row, 'modes', '.1f')}, {worst}"
