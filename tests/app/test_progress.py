"""What is shown of a run is read from its events: on a terminal, in a log, in TensorBoard."""

import io
import sys
import types
import typing

import pytest
import tiny_run

from temperflow.app import progress, runner
from temperflow.app.progress import BarProgress, PlainProgress, Remaining, TensorBoard, display

EPOCH = {
    "kind": "epoch",
    "time": 1.7e9,
    "epochs": 200,
    "horizon": 0.6,
    "residual": 12.345,
    "ess": 0.4321,
    "hot_share": 0.25,
    "cold_share": 0.11,
    "energy_calls": 1_234_567,
    "dropped": 0,
}
FIGURES = ["0.60", "12.3", "0.432", "25%/11%", "1,234,567"]


def epoch(number, seconds=None, **changes):
    return {**EPOCH, "epoch": number, "seconds": float(number) if seconds is None else seconds, **changes}


class Log(io.StringIO, typing.TextIO):
    """A stream by the type hook's lights too."""


class Terminal(Log):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [80, 120])
def test_the_bar_shows_what_matters_on_one_line_each(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    bar = display(True, terminal)
    assert isinstance(bar, BarProgress)
    for number in (1, 2, 100):
        bar(epoch(number))
    bar({"kind": "warning", "message": "odd"})
    bar.close()
    text = terminal.getvalue()
    assert "warning: odd" in text
    last = text[text.rindex("epoch ") :]
    assert "100/200" in last.splitlines()[0]
    for name in ("horizon", "residual", "ESS", "hot/cold", "evaluations", "left"):
        assert name in last.splitlines()[1]
    figures = last.splitlines()[2]
    assert all(figure in figures for figure in [*FIGURES, "1:40"])  # a hundred epochs at a second each


def test_a_log_gets_a_line_at_a_time(monkeypatch):
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock.now)
    stream = Log()
    plain = display(True, stream)
    assert isinstance(plain, PlainProgress)
    for number in range(1, 201):
        clock.now = 0.5 * number
        plain(epoch(number))
    plain({"kind": "checkpoint", "epoch": 200})  # which nobody need know of
    plain({"kind": "finished", "epoch": 200, "energy_calls": 5000, "seconds": 9.9})
    lines = stream.getvalue().splitlines()
    assert len(lines) == 22  # every five seconds, the last epoch, the end
    assert all(figure in lines[3] for figure in FIGURES)
    assert lines[-2].startswith("epoch 200/200")
    assert lines[-1] == "trained: 200 epochs, 5,000 evaluations, 9.9 s"


def test_time_left_forgets_the_first_epochs_and_what_was_done_over():
    left = Remaining()
    assert left(epoch(1, 60.0)) is None  # it compiled
    for number in range(2, 102):
        found = left(epoch(number, 60.0 + number))
    assert found == pytest.approx(99.0)
    assert left(epoch(50, 300.0)) is None  # rolled back
    assert left(epoch(51, 302.0)) == pytest.approx(2.0 * 149)


def test_nothing_is_shown_to_who_wants_nothing():
    assert display(False) is None


class Writer:
    """Stands in for tensorboardX.SummaryWriter."""

    written: list = []  # noqa: RUF012
    closed = 0

    def __init__(self, directory):
        self.directory = directory

    def add_scalar(self, name, value, step, walltime):
        self.written.append((name, value, step))

    def close(self):
        type(self).closed += 1


def test_tensorboard_gets_every_figure_of_every_epoch(monkeypatch, tmp_path):
    writer = type("Writer", (Writer,), {"written": [], "closed": 0})
    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=writer))
    run = runner.fit("gmm9", "quick", tmp_path / "run", overrides=tiny_run.OVERRIDES, progress=False, tensorboard=True)
    names = {name for name, _, _ in writer.written}
    assert {"training/loss", "training/residual", "training/ess", "training/energy_calls", "training/dropped"} <= names
    assert not names & {"training/epoch", "training/time", "training/kind"}
    losses = [(value, step) for name, value, step in writer.written if name == "training/loss"]
    assert losses == [(event["loss"], event["epoch"]) for event in run.history]
    assert writer.closed == 1


def test_tensorboard_itself_reads_what_it_is_given(tmp_path):
    pytest.importorskip("tensorboardX")
    board = TensorBoard(tmp_path / "board")
    board(epoch(3))
    board.close()
    (file,) = (tmp_path / "board").iterdir()
    assert b"training/residual" in file.read_bytes()
