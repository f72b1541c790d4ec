"""A batch: some seeds of one row, and the directory that holds what they come to."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temperflow.app.build import Survey
from temperflow.app.checkpoint import Checkpoints
from temperflow.app.config import Config
from temperflow.app.errors import UsageError
from temperflow.app.files import digest, explained, to_json
from temperflow.app.manifest import Manifest
from temperflow.app.reproduce.rows import Row, differences
from temperflow.app.run_directory import SURVEY, RunDirectory

# Of the whole batch: what decides it, what was trained, how that went, its walkers' temperatures.
BATCH, SAMPLERS, MADE, TEMPERATURES = "batch.json", "samplers.safetensors", "made.json", "temperatures.safetensors"


@dataclass(frozen=True)
class Batch:
    """Seeds of a row that are made together.

    Every file but checkpoints and events is listed with its digest in `manifest.json`.

    Args:
        path: the directory.
        row: what to make.
        seeds: of the runs.
    """

    path: Path
    row: Row
    seeds: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> "Batch":
        """The batch that is there."""
        values = json.loads(Manifest.read(path).load(path, BATCH))
        row = Row(values["row"], values["target"], Config.from_dict(values["config"]), values["way"])
        return cls(path, row, tuple(values["seeds"]))

    def begin(self) -> None:
        """Make the directory and write what decides the batch, if that has not been done."""
        if self.has(BATCH):
            return
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        row = self.row
        decided = {"row": row.name, "target": row.target, "way": row.way, "seeds": list(self.seeds)}
        self.write(BATCH, to_json({**decided, "config": row.config.to_dict()}))

    @property
    def checkpoints(self) -> Checkpoints:
        """Where its states are; only the newest is of use."""
        return Checkpoints(self.path / "checkpoints", digest(self.load(BATCH)), keep=1)

    def forget_checkpoints(self) -> None:
        """Once the samplers are there nobody needs them."""
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)

    @property
    def epoch(self) -> int:
        """The last one committed; 0 before that."""
        names = self.checkpoints.names() if self.has(BATCH) else []
        return int(names[-1].removeprefix("epoch-")) if names else 0

    @property
    def made(self) -> bool:
        """Whether what its draws come from has been committed."""
        return self.has(MADE)

    @property
    def survey(self) -> Survey | None:
        """What the pilot found, if there was one."""
        return Survey.from_dict(self.read_json(SURVEY)) if self.has(SURVEY) else None

    def drawn(self, seed: int) -> bool:
        """Whether the seed's draws are there."""
        return self.has(draws_file(seed))

    def measured(self, seed: int) -> bool:
        """Whether the seed's figures are there."""
        return self.has(figures_file(seed))

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        return (self.path / name).is_file()

    def write(self, name: str, content: bytes) -> None:
        """Put a file in place and list it."""
        RunDirectory(self.path).write(name, content)

    def load(self, name: str) -> bytes:
        """A listed file, checked."""
        return Manifest.read(self.path).load(self.path, name)

    def read_json(self, name: str) -> dict[str, Any]:
        """A listed JSON file, checked."""
        return json.loads(self.load(name))


def draws_file(seed: int) -> str:
    """Where the draws of a seed are."""
    return f"draws.{seed}.safetensors"


def figures_file(seed: int) -> str:
    """Where the figures of a seed are."""
    return f"figures.{seed}.json"


def found_in(place: Path) -> list[Batch]:
    """Every batch that has been begun there."""
    return [Batch.read(path.parent) for path in sorted(place.glob(f"*/{BATCH}"))]


def batches(place: Path, rows: Sequence[Row], seeds: int) -> list[Batch]:
    """What there is and what is missing, so that every row has seeds 0 to `seeds` - 1; those begun come first.

    Raises:
        UsageError: the directory holds the same row with other settings.
    """
    there = found_in(place)
    wanted = []
    for row in rows:
        mine = [batch for batch in there if (batch.row.name, batch.row.target) == (row.name, row.target)]
        for batch in mine:
            _require_same(batch, row)
        covered = {seed for batch in mine for seed in batch.seeds}
        missing = tuple(seed for seed in range(seeds) if seed not in covered)
        wanted += mine
        if missing:
            wanted.append(Batch(place / _folder(row, missing), row, missing))
    return sorted(wanted, key=lambda batch: not batch.has(BATCH))


def _folder(row: Row, seeds: Sequence[int]) -> str:
    return f"{row.name.replace('/', '-').replace('+', '-')}.{row.target}.seeds-{'-'.join(map(str, seeds))}"


def _require_same(batch: Batch, row: Row) -> None:
    changed = differences(batch.row.config, row.config)
    if not changed:
        return
    told = "; ".join(f"{name}: {there!r} there, {now!r} now" for name, (there, now) in changed.items())
    raise UsageError(
        got=f"{batch.path}, where {row.name} has other settings ({told})",
        expected="one experiment a directory",
        todo="choose another --out, or remove that row's directory",
    )
