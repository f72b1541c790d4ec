"""Every foreseeable misuse ends in one clear message and the right status, and leaves nothing behind."""

import shlex
import shutil

import misuses
import pytest
import tiny_run

from temperflow.app import loop
from temperflow.app.cli import main
from temperflow.app.errors import Interrupted

SETTINGS = [f"--{name}={value}".lower() for name, value in tiny_run.OVERRIDES.items()]


@pytest.fixture(scope="module")
def site(whole, tmp_path_factory):
    """The folder that `misuses` describes."""
    folder = tmp_path_factory.mktemp("site")
    for name, content in misuses.FILES.items():
        (folder / name).write_text(content)
    for name in ("empty", "empty.py", "folder.nc"):
        (folder / name).mkdir()
    shutil.copytree(whole.directory, folder / "done")
    _unfinished(folder / "half")
    return folder


def _unfinished(directory):
    """The same run, stopped by a signal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.StopRequest, "__enter__", _asked)
        with pytest.raises(Interrupted):
            tiny_run.run(directory)


def _asked(stop):
    stop.number = 15
    return stop


@pytest.fixture
def told(site, monkeypatch, capsys):
    """Carry out some words in that folder: their status and what is said on standard error."""

    def carry_out(words):
        monkeypatch.chdir(site)
        status = main(shlex.split(words) if isinstance(words, str) else words)
        return status, capsys.readouterr().err

    return carry_out


def is_one_message(text):
    """A message in this package's form: got, perhaps expected, what to do; no traceback."""
    lines = text.strip().splitlines()
    kinds = [line.split(" ")[0] for line in lines]
    return (
        lines[0].startswith("temperflow: got ")
        and kinds[1:] in (["to"], ["expected", "to"])
        and lines[-1].startswith("to do: ")
        and "Traceback" not in text
    )


@pytest.mark.parametrize("name", misuses.TABLE)
def test_a_misuse_is_told_in_one_message(told, site, name):
    words, pieces = misuses.TABLE[name]
    before = sorted(site.rglob("*"))
    status, text = told(words)
    assert status == 2
    assert is_one_message(text), text
    for piece in pieces:
        assert piece in text
    assert sorted(path for path in site.rglob("*") if "__pycache__" not in path.parts) == before


def test_there_are_enough_of_them():
    assert len(misuses.TABLE) >= 60
