"""What belongs to a directory, byte for byte: nothing is read that does not match."""

import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temperflow.app.errors import UsageError
from temperflow.app.files import digest, to_json, write_atomically

NAME = "manifest.json"
FORMAT = 1


class Refused(UsageError):
    """A file on disk is not what was written there."""


@dataclass(frozen=True)
class Manifest:
    """SHA-256 and size of each file, the versions that wrote them, and what they are of.

    Args:
        files: name to its digest and size.
        about: whatever identifies the contents.
        versions: of the packages that wrote them.

    >>> manifest = Manifest.of({"a.txt": b"hello"}, {"epoch": 3})
    >>> manifest.check("a.txt", b"hello")
    >>> manifest.check("a.txt", b"hellO")
    Traceback (most recent call last):
        ...
    temperflow.app.manifest.Refused: got a.txt with other contents than were written (SHA-256 differs)
    expected the file that the manifest lists
    to do: restore the file from a copy, or rebuild it by resuming the run
    """

    files: Mapping[str, Mapping[str, Any]]
    about: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, contents: Mapping[str, bytes], about: Mapping[str, Any]) -> "Manifest":
        """The manifest of files with these contents."""
        files = {name: {"sha256": digest(content), "size": len(content)} for name, content in contents.items()}
        return cls(files, dict(about), versions())

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """The manifest in a directory."""
        path = directory / NAME
        try:
            values = json.loads(path.read_bytes())
            found = values["format"]
            manifest = cls(dict(values["files"]), dict(values["about"]), dict(values["versions"]))
            sound = all(isinstance(entry["sha256"], str) and entry["size"] >= 0 for entry in manifest.files.values())
        except FileNotFoundError:
            raise _refused(f"{directory} without {NAME}", "a directory that was committed") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _refused(f"{path} that cannot be read ({error})", "the manifest that was written") from None
        if found != FORMAT or not sound:
            raise _refused(f"{path} of format {found!r}", f"format {FORMAT}")
        return manifest

    def to_bytes(self) -> bytes:
        """What the file holds."""
        return to_json(
            {
                "format": FORMAT,
                "versions": dict(self.versions),
                "about": dict(self.about),
                "files": {name: dict(entry) for name, entry in self.files.items()},
            }
        )

    def write(self, directory: Path) -> None:
        """Commit: to be called when every listed file is in place."""
        write_atomically(directory / NAME, self.to_bytes())

    def check(self, name: str, content: bytes) -> None:
        """Refuse contents that are not those listed under this name."""
        if name not in self.files:
            raise _refused(f"{name}, which the manifest does not list", "a file of this directory")
        entry = self.files[name]
        if len(content) != entry["size"]:
            size = f"{name} of {len(content)} bytes where {entry['size']} were written (truncated or replaced)"
            raise _refused(size, "the file that the manifest lists")
        if digest(content) != entry["sha256"]:
            changed = f"{name} with other contents than were written (SHA-256 differs)"
            raise _refused(changed, "the file that the manifest lists")

    def load(self, directory: Path, name: str) -> bytes:
        """The contents of a listed file, checked."""
        try:
            content = (directory / name).read_bytes()
        except OSError as error:
            raise _refused(f"{directory / name} that cannot be read ({error.strerror})", "a listed file") from None
        self.check(name, content)
        return content


def versions() -> dict[str, str]:
    """Of everything that could make a number come out differently."""
    packages = ("temperflow", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "safetensors")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def _refused(got: str, expected: str) -> Refused:
    return Refused(got=got, expected=expected, todo="restore the file from a copy, or rebuild it by resuming the run")
