"""Displays of a run: each is a reader of its events and knows nothing else."""

import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, TextIO

from temperflow.app.errors import UsageError
from temperflow.app.events import Event

PLAIN_EVERY = 5.0
# The rate is taken from the last epochs only: the first one compiles.
RECENT = 50

_MESSAGES = {
    "warning": "warning: {message}",
    "surveying": "surveying the target's domain",
    "surveyed": "domain of scale {scale:.4g}, {energy_calls:,} evaluations, {seconds:.1f} s",
    "compiling": "compiling",
    "refused": "refused checkpoint {name}: {reason}",
    "resumed": "resumed at epoch {epoch}",
    "rolled_back": "trouble in epoch {trouble} ({reason}); back to epoch {epoch} with half the learning rate",
    "finished": "trained: {epoch} epochs, {energy_calls:,} evaluations, {seconds:.1f} s",
}


class Remaining:
    """Time left, from the recent epochs of this process."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT)

    def __call__(self, event: Event) -> float | None:
        """Seconds to the end after an `epoch` event; None before there is a rate."""
        if self._recent and event["epoch"] <= self._recent[-1][0]:
            self._recent.clear()
        self._recent.append((event["epoch"], event["seconds"]))
        (first, began), (last, ended) = self._recent[0], self._recent[-1]
        if last == first:
            return None
        return (event["epochs"] - last) * (ended - began) / (last - first)


class PlainProgress:
    """A line every few seconds and one for each turn of events: for logs and pipes.

    Args:
        stream: where to write.
        every: seconds between two epochs' lines.
    """

    def __init__(self, stream: TextIO, every: float = PLAIN_EVERY):
        self._stream, self._every, self._last = stream, every, -float("inf")
        self._remaining = Remaining()

    def __call__(self, event: Event) -> None:
        if event["kind"] == "epoch":
            left, now = self._remaining(event), time.monotonic()
            if now - self._last >= self._every or event["epoch"] == event["epochs"]:
                self._last = now
                shown = "  ".join(f"{name} {value}" for name, value in figures(event, left).items())
                print(f"epoch {event['epoch']}/{event['epochs']}  {shown}", file=self._stream, flush=True)
        elif text := message(event):
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to take down."""


class BarProgress:
    """A bar with the figures that matter beneath it, drawn by rich.

    Args:
        stream: a terminal.
    """

    def __init__(self, stream: TextIO):
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream)
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)
        self._live.start()
        self._remaining = Remaining()

    def __call__(self, event: Event) -> None:
        if event["kind"] == "epoch":
            left = self._remaining(event)
            self._live.update(self._picture(event, left))
        elif text := message(event):
            self._console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the last picture standing."""
        self._live.stop()

    def _picture(self, event: Event, left: float | None) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            f"epoch {event['epoch']}/{event['epochs']}",
            ProgressBar(total=event["epochs"], completed=event["epoch"], width=40),
        )
        figures_table = Table.grid(padding=(0, 2))
        shown = figures(event, left)
        figures_table.add_row(*(f"[dim]{name}[/dim]" for name in shown))
        figures_table.add_row(*shown.values())
        return Group(bar, figures_table)


class TensorBoard:
    """Every figure of every epoch as a TensorBoard scalar.

    Args:
        directory: where its files go.
    """

    def __init__(self, directory: Path):
        self._writer = TensorBoard.writer()(str(directory))

    @staticmethod
    def writer() -> Any:
        """What makes its files; to be asked for before a run begins, since it may not be installed."""
        try:
            from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise UsageError(
                got="tensorboard=True without the package tensorboardX",
                expected="the extra to be installed",
                todo="pip install 'temperflow[tensorboard]'",
            ) from error
        return SummaryWriter

    def __call__(self, event: Event) -> None:
        if event["kind"] == "epoch":
            for name, value in event.items():
                if isinstance(value, (int, float)) and name not in ("time", "epoch", "epochs"):
                    self._writer.add_scalar(f"training/{name}", value, event["epoch"], walltime=event["time"])

    def close(self) -> None:
        """Flush its files."""
        self._writer.close()


def display(shown: bool, stream: TextIO | None = None) -> PlainProgress | BarProgress | None:
    """The display that suits the stream (standard error unless given), or none."""
    if not shown:
        return None
    place = sys.stderr if stream is None else stream
    return BarProgress(place) if place.isatty() else PlainProgress(place)


def figures(event: Event, left: float | None) -> dict[str, str]:
    """What matters of an epoch, as a person reads it.

    >>> event = {"horizon": 1.0, "residual": 0.5, "ess": 0.9, "hot_share": 0.2, "cold_share": 0.1,
    ...          "energy_calls": 12345, "epoch": 3, "epochs": 9}
    >>> figures(event, 75.0)["left"], figures({**event, "ess": None}, None)["ESS"]
    ('1:15', '–')
    """
    return {
        "horizon": _number(event["horizon"], ".2f"),
        "residual": _number(event["residual"], ".3g"),
        "ESS": _number(event["ess"], ".3f"),
        "hot/cold": f"{_number(event['hot_share'], '.0%')}/{_number(event['cold_share'], '.0%')}",
        "evaluations": f"{event['energy_calls']:,}",
        "left": "–" if left is None else _clock(left),
    }


def message(event: Event) -> str | None:
    """One line for an event that is not an epoch, or None where a person need not know."""
    template = _MESSAGES.get(event["kind"])
    return None if template is None else template.format(**event)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
