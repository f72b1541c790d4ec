"""When no more can be written: one message, status 2, and nothing half-written under a name that counts.

A limit on the size of a file stands in for a full disk: the system refuses the write that would
pass it, at whatever call and in whatever library it happens.
"""

import contextlib
import resource

import pytest
import tiny_run

from temperflow.app import export_formats
from temperflow.app.cli import main
from temperflow.app.errors import UsageError
from temperflow.app.events import EventLog, read
from temperflow.app.export import export
from temperflow.app.export_formats import FORMATS

DRAWS, CHUNK = 5000, 1000


@contextlib.contextmanager
def files_up_to(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_event_is_recorded_whole_or_not_at_all(tmp_path):
    path = tmp_path / "events.jsonl"
    with files_up_to(1000), EventLog(path) as log, pytest.raises(UsageError, match=r"events\.jsonl"):  # noqa: PT012
        for number in range(100):
            log.write("epoch", epoch=number)
    events = read(path)
    assert [event["epoch"] for event in events] == list(range(len(events)))
    assert path.read_bytes().endswith(b"}\n")
    assert 10 < len(events) < 30


def test_a_run_says_what_it_could_not_write(whole, tmp_path, capsys):
    """After `whole`, which has compiled the same programs: compiling writes files of its own."""
    words = [f"--{name}={value}".lower() for name, value in tiny_run.OVERRIDES.items()]
    out = tmp_path / "run"
    with files_up_to(20_000):
        status = main(["run", "gmm9", "--recipe=quick", "--quiet", f"--out={out}", *words])
    said = capsys.readouterr().err
    assert status == 2
    assert f"got 'File too large' from {out}/checkpoints/epoch-" in said
    assert "Traceback" not in said
    assert not list(out.rglob("*.tmp"))
    assert read(out / "events.jsonl")[0]["kind"] == "started"


@pytest.fixture(scope="module")
def sampler(whole, tmp_path_factory):
    """One that has drawn before, for the same reason."""
    export(whole.sampler, DRAWS, tmp_path_factory.mktemp("draws") / "a.csv", chunk=CHUNK)
    return whole.sampler


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_no_part_of_a_file_of_draws_is_left(sampler, tmp_path, ending, share):
    whole, out = tmp_path / f"whole{ending}", tmp_path / f"draws{ending}"
    export(sampler, DRAWS, whole, chunk=CHUNK)
    with (
        files_up_to(int(share * whole.stat().st_size)),
        pytest.raises(UsageError, match=rf"File too large.*draws\{ending}"),
    ):
        export(sampler, DRAWS, out, chunk=CHUNK)
    assert [entry.name for entry in tmp_path.iterdir()] == [whole.name]


def test_a_failure_that_nobody_asks_about_passes_for_success(sampler, tmp_path, monkeypatch):
    """Mutant: what lies under HDF5 forgets that it failed."""
    monkeypatch.setattr(export_formats._Forbearing, "raise_failure", lambda self: None)
    with files_up_to(20_000):
        export(sampler, DRAWS, tmp_path / "draws.nc", chunk=CHUNK)
    assert (tmp_path / "draws.nc").stat().st_size <= 20_000
