"""Writing so that a file is either the old one or the new one, whatever happens in between."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from temperflow.app.errors import UsageError


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def to_json(value: Any, indent: int | None = 2) -> bytes:
    """Strict JSON with a final newline; a number that is not finite is an error, not a surprise."""
    return (json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False) + "\n").encode()


def write_atomically(path: Path, content: bytes) -> None:
    """Temporary file, flushed to the disk, renamed over the old one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explained(path):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        flush_directory(path.parent)


def write_directory(path: Path, contents: Mapping[str, bytes]) -> None:
    """A whole directory at once: it appears under its name with every file in it, or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explained(path):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            for name, content in contents.items():
                with (temporary / name).open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            flush_directory(temporary)
            if path.exists():
                shutil.rmtree(path)
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Make a rename in this directory survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the operating system's refusal to write into a message that says what to do."""
    try:
        yield
    except OSError as error:
        todo = {
            errno.ENOSPC: "free some space and resume; what was committed before is intact",
            errno.EDQUOT: "free some of your quota and resume; what was committed before is intact",
            errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
            errno.EROFS: "choose a directory on a disk that can be written",
            errno.EACCES: "choose a directory you may write to, or change its permissions",
            errno.EPERM: "choose a directory you may write to, or change its permissions",
        }.get(error.errno or 0, "check the disk and the path")
        reason = error.strerror or str(error)
        raise UsageError(got=f"{reason!r} from {path}", expected="to write there", todo=todo) from error


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds the directory for this process; the system lets go when the process dies, however it dies."""
    path = directory / ".lock"
    with explained(path):
        file = path.open("a+b", buffering=0)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UsageError(
                got=f"{directory} is in use by process {file.read().decode().strip() or '(unknown)'}",
                expected="one process a run directory",
                todo="wait for it, stop it, or choose another directory",
            ) from None
        except OSError as error:
            raise UsageError(
                got=f"{error.strerror!r} when locking {path}",
                expected="a file system with advisory locks",
                todo="choose a directory on a local disk",
            ) from error
        with contextlib.suppress(OSError):  # a courtesy to whoever comes second; a full disk is told by what matters
            file.truncate(0)
            file.write(f"{os.getpid()} on {os.uname().nodename}".encode())
        yield
