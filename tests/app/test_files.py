"""Writing is all or nothing, and only one process holds a directory."""

import errno
import os

import pytest

from temperflow.app import files
from temperflow.app.errors import UsageError
from temperflow.app.files import locked, write_atomically, write_directory


def fail_with(number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_failed_write_leaves_the_old_file_and_says_what_to_do(tmp_path, monkeypatch, number):
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    monkeypatch.setattr(files.os, "fsync", fail_with(number))
    with pytest.raises(UsageError) as caught:
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
    assert os.strerror(number) in str(caught.value)
    assert "to do: " in str(caught.value)


def test_a_failed_directory_does_not_appear(tmp_path, monkeypatch):
    real, calls = os.fsync, []

    def second_fails(handle):
        calls.append(handle)
        if len(calls) == 2:
            fail_with(errno.ENOSPC)()
        real(handle)

    monkeypatch.setattr(files.os, "fsync", second_fails)
    with pytest.raises(UsageError, match="No space left"):
        write_directory(tmp_path / "epoch-1", {"a": b"1", "b": b"2"})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_replaces_another_whole(tmp_path):
    write_directory(tmp_path / "here", {"a": b"1", "b": b"2"})
    write_directory(tmp_path / "here", {"b": b"3"})
    assert {entry.name: entry.read_bytes() for entry in (tmp_path / "here").iterdir()} == {"b": b"3"}


def test_json_refuses_what_json_cannot_say():
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.to_json({"loss": float("nan")})


def test_a_locked_directory_is_refused_and_names_the_holder(tmp_path):
    with locked(tmp_path), pytest.raises(UsageError, match=f"in use by process {os.getpid()} on "), locked(tmp_path):
        pass
    with locked(tmp_path):  # and free again afterwards
        pass
