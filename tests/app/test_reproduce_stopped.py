"""A signal ends a session of `temperflow reproduce` in order, and the same command goes on."""

import signal

import pytest
import tiny_experiment as tiny

from temperflow.app.cli import main
from temperflow.app.reproduce import measuring, training
from temperflow.app.reproduce.batch import found_in
from temperflow.app.reproduce.session import Stopped, stoppable
from temperflow.app.reproduce.ways import WAYS, Way


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    tiny.compiled_once(monkeypatch)


def asked(stop):
    stop.number = signal.SIGTERM
    return stop


def raised(batch, seed):
    signal.raise_signal(signal.SIGINT)


def test_it_is_committed_told_and_gone_on_with(tmp_path, monkeypatch, capsys):
    row = ("--recipe", "quick", "--targets", "gmm40", "--rows", "quick+transport")
    words = tiny.words("ctds", tmp_path, *row, settings=tiny.SWAPS)
    with monkeypatch.context() as patch:
        patch.setattr(training.StopRequest, "__enter__", asked)
        assert main(words) == 128 + signal.SIGTERM
    message = capsys.readouterr().err
    assert f"SIGTERM at epoch 1 of {tiny.EPOCHS} of quick+transport" in message
    assert "give the same command again" in message
    (batch,) = found_in(tmp_path)
    assert (batch.epoch, batch.made) == (1, False)

    # While it measures a signal acts at once: nothing is lost that is not quickly done again.
    with monkeypatch.context() as patch:
        patch.setitem(WAYS, "training", Way(training.train, measuring.draw, raised))
        assert main(words) == 128 + signal.SIGINT
    assert "SIGINT at measuring seed 0 of quick+transport" in capsys.readouterr().err
    (batch,) = found_in(tmp_path)
    assert batch.made
    assert not batch.measured(0)

    assert main(words) == 0
    assert "| quick+transport | gmm40 | 2 |" in capsys.readouterr().out


def test_handlers_are_as_they_were_before():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped, match="SIGTERM at a stage"), stoppable("a stage"):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
