"""Training states on disk: each one whole or absent, and nothing read that was not written by this run."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from temperflow.app import arrays
from temperflow.app.files import explained, write_directory
from temperflow.app.manifest import NAME, Manifest, Refused

Tree = TypeVar("Tree")
STATE = "state.safetensors"
_NAMED = re.compile(r"epoch-(\d{8})")


@dataclass(frozen=True)
class Restored(Generic[Tree]):
    """What was found: the tree, what was noted beside it, and which newer ones were refused and why.

    Args:
        tree: the arrays, in the structure asked for; None where nothing usable is left.
        about: the notes it was saved with.
        refused: name and reason of each that was passed over.
    """

    tree: Tree | None
    about: Mapping[str, Any]
    refused: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Checkpoints:
    """A folder of committed states, the newest few of one run.

    A state is a directory `epoch-00000120` that appears by a rename when its files are on the
    disk; its manifest lists their digests and names the run they belong to.

    Args:
        folder: where they lie.
        run: the digest that identifies the run; others are foreign.
        keep: how many.
    """

    folder: Path
    run: str
    keep: int = 3

    def save(self, epoch: int, tree: Any, notes: Mapping[str, Any]) -> int:
        """Commit a state, then let the oldest go. Returns its size in bytes."""
        contents = {STATE: arrays.to_bytes(tree)}
        manifest = Manifest.of(contents, {"run": self.run, "epoch": epoch, **notes})
        with explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_directory(self.folder / f"epoch-{epoch:08d}", {**contents, NAME: manifest.to_bytes()})
        for old in self.names()[: -self.keep]:
            shutil.rmtree(self.folder / old, ignore_errors=True)
        return len(contents[STATE])

    def restore(self, like: Tree) -> Restored[Tree]:
        """The newest good state. Bad ones are set aside under `.refused` and not looked at again."""
        refused = []
        for name in reversed(self.names()):
            try:
                manifest = Manifest.read(self.folder / name)
                if manifest.about.get("run") != self.run:
                    raise Refused(
                        got="a checkpoint of another run",
                        expected="one that this run wrote",
                        todo="remove it from the directory",
                    )
                tree = arrays.from_bytes(manifest.load(self.folder / name, STATE), like)
            except Refused as reason:
                refused.append((name, reason.got))
                self._set_aside(name)
            else:
                return Restored(tree, manifest.about, tuple(refused))
        return Restored(None, {}, tuple(refused))

    def names(self) -> list[str]:
        """Committed states, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(entry.name for entry in self.folder.iterdir() if _NAMED.fullmatch(entry.name))

    def clear_unfinished(self) -> None:
        """Remove what an interrupted `save` left behind."""
        if self.folder.is_dir():
            for entry in self.folder.glob(".*.tmp"):
                shutil.rmtree(entry, ignore_errors=True)

    def _set_aside(self, name: str) -> None:
        aside = self.folder / f"{name}.refused"
        with explained(aside):
            shutil.rmtree(aside, ignore_errors=True)
            (self.folder / name).rename(aside)
