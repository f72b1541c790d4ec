"""What a person sees in the terminal: tables on standard output, notes on standard error."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from temperflow.app.run_directory import METRICS, VERDICT, RunDirectory

_COLOURS = {"trusted": "green", "check": "yellow", "not converged": "red"}
_MARKS = {"trusted": "✓", "check": "?", "not converged": "✗"}


def note(text: str) -> None:
    """A line about what goes on."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def counting(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def show_run(place: RunDirectory) -> None:
    """Verdict first, then the figures, then the others."""
    from temperflow.app.aftermath import COMPARISON

    if verdict := place.read_json(VERDICT):
        show_verdict(verdict)
    if metrics := place.read_json(METRICS):
        show_metrics(metrics)
    if comparison := place.read_json(COMPARISON):
        show_comparison(comparison)


def show_verdict(verdict: dict[str, Any]) -> None:
    """The word and every finding."""
    from rich.text import Text

    word = verdict["verdict"]
    _print(Text(f"verdict: {word}", style=f"bold {_COLOURS[word]}"))
    table = _table("", "finding", "")
    order = list(_COLOURS)
    for finding in sorted(verdict["findings"], key=lambda one: -order.index(one["level"])):
        level = finding["level"]
        table.add_row(Text(_MARKS[level], style=_COLOURS[level]), finding["name"], finding["text"])
    _print(table)


def show_metrics(m: dict[str, Any]) -> None:
    """Every figure with its error and with what perfection would score."""
    known = _number(m["log_evidence_known"])
    bound = "log Z" if m["log_evidence_known"] is None else known
    rows = [
        ("W2", _with(m, "w2", "w2_spread"), _with(m, "w2_floor", "w2_floor_spread"), "floor: two exact samples"),
        ("ELBO", _with(m, "elbo", "elbo_error"), f"≤ {bound}", "by the flow's density"),
        ("EUBO", _with(m, "eubo", "eubo_error"), f"≥ {bound}", "a missed mode shows here"),
        ("log Z", _with(m, "log_evidence", "log_evidence_error"), known, "by the flow's weights"),
        ("-F(1, 1)", _number(None if m["free_energy"] is None else -m["free_energy"]), known, "as learned"),
        ("ESS", _with(m, "ess", "ess_error"), "1", "blind to missed modes"),
        ("ESS, forward", _with(m, "ess_forward", "ess_forward_error"), "1", "not blind"),
        ("k-hat", _number(m["khat"]), "< 0.7", "tail of the weights"),
        ("modes", _modes(m), "", "that hold a draw"),
        ("mode TV", _with(m, "mode_tv", "mode_tv_spread"), _number(m["mode_tv_floor"]), "error of the modes' shares"),
        ("energy calls", f"{m['energy_calls']:,}", "", f"for {m['trials']} x {m['n']} draws"),
    ]
    table = _table("", "value", "perfect", "")
    for row in rows:
        if row[1] != "–":
            table.add_row(*row)
    _print(table)


def show_comparison(found: dict[str, Any]) -> None:
    """One row a sampler, tight enough for 80 columns."""
    table = _table("sampler", "W2", "floor", "ELBO", "EUBO", "ESS", "log Z", "modes", "calls", "s")
    table.padding = 0 if _width() < 100 else (0, 1)
    for row in found["rows"]:
        table.add_row(
            row["sampler"],
            *(_number(row[name], 3) for name in ("w2", "w2_floor", "elbo", "eubo", "ess")),
            _with(row, "log_evidence", "log_evidence_error"),
            _number(row["modes"]),
            _many(row["energy_calls"]),
            f"{row['seconds']:.1f}",
        )
    _print(table)


def show_draws(out: Path, found: dict[str, float | int]) -> None:
    """What was written."""
    z = _with(found, "log_evidence", "log_evidence_error")
    print(f"{out}: {found['n']:,} draws, log Z {z}, ESS {_number(found['ess'])}, k-hat {_number(found['khat'])}, "
          f"{found['energy_calls']:,} energy calls")  # fmt: skip


def show_targets(listed: dict[str, dict[str, Any]]) -> None:
    """Name, dimension, what is known."""
    table = _table("target", "dim", "exact draws", "log Z", "modes", "")
    for name, about in listed.items():
        known = "yes" if about["exact_draws"] else "no"
        numbers = (_number(about["log_evidence"]), _number(about["modes"]))
        table.add_row(name, str(about["dim"]), known, *numbers, about["reference"])
    if sys.stdout.isatty():  # a line a target; whoever wants all of the reference has `--json`
        last = table.columns[-1]
        table.expand, last.ratio, last.no_wrap, last.overflow = True, 1, True, "ellipsis"
    _print(table)


def show_recipes(listed: dict[str, str]) -> None:
    """Name and when to use it."""
    table = _table("recipe", "when")
    for name, summary in listed.items():
        table.add_row(name, summary)
    _print(table)


def show_doctor(found: dict[str, Any]) -> None:
    """Every check with what it measured."""
    from rich.text import Text

    _print("devices: " + ", ".join(device["kind"] for device in found["devices"]))
    _print("versions: " + ", ".join(f"{name} {version}" for name, version in found["versions"].items()))
    table = _table("", "check", "measured", "meaning")
    for check in found["checks"]:
        style = "green" if check["ok"] else "red"
        table.add_row(
            Text("✓" if check["ok"] else "✗", style=style), check["name"], check["measured"], check["meaning"]
        )
    _print(table)
    _print(
        Text("ok", style="bold green")
        if found["ok"]
        else Text("not ok: do not trust this machine's weights", style="bold red")
    )


def _table(*columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(thing: Any) -> None:
    from rich.console import Console

    Console(width=_width()).print(thing, highlight=False)


def _width() -> int:
    # A pipe has no width; a table must not be folded to 80 columns there.
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


def _number(value: float | int | None, digits: int = 4) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def _many(count: int) -> str:
    return f"{count / 1e6:.3g}M" if count >= 1e6 else f"{count / 1e3:.3g}k"


def _with(values: dict[str, Any], name: str, error: str) -> str:
    """A number and its error, where there is one."""
    value, uncertain = values[name], values[error]
    if value is None or uncertain is None:
        return _number(value)
    return f"{value:.3f} ± {uncertain:.3f}"


def _modes(m: dict[str, Any]) -> str:
    return "–" if m["modes"] is None else f"{m['modes']:.4g}, worst trial {m['modes_worst']}"
