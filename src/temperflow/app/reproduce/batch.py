"""A batch: some seeds of one row, and the directory that holds what they come to."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temperflow.app.build import Survey
from temperflow.app.config import Config
from temperflow.app.errors import UsageError
from temperflow.app.files import digest, explained, to_json
from temperflow.app.manifest import Manifest
from temperflow.app.reproduce.rows import Row
from temperflow.app.run_directory import SURVEY, RunDirectory

BATCH = "batch.json"
SAMPLERS, TRAINED = "samplers.safetensors", "trained.json"
DRAWS, METRICS, TEMPERATURES = "draws.safetensors", "metrics.json", "temperatures.safetensors"


@dataclass(frozen=True)
class Batch:
    """Seeds of a row that train in one program.

    Every file but checkpoints and events is listed with its digest in `manifest.json`.

    Args:
        path: the directory.
        row: what to train.
        seeds: of the runs.
    """

    path: Path
    row: Row
    seeds: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> "Batch":
        """The batch that is there."""
        values = json.loads(Manifest.read(path).load(path, BATCH))
        row = Row(values["row"], values["target"], Config.from_dict(values["config"]))
        return cls(path, row, tuple(values["seeds"]))

    def begin(self) -> None:
        """Make the directory and write what decides the batch, if that has not been done."""
        if self.has(BATCH):
            return
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        config = self.row.config.to_dict()
        self.write(
            BATCH,
            to_json({"row": self.row.name, "target": self.row.target, "seeds": list(self.seeds), "config": config}),
        )

    @property
    def identity(self) -> str:
        """What checkpoints of this batch are recognised by."""
        return digest(self.load(BATCH))

    @property
    def begun(self) -> bool:
        """Whether it has trained at all."""
        return (self.path / "checkpoints").is_dir() or self.trained

    @property
    def trained(self) -> bool:
        """Whether its samplers have been committed."""
        return self.has(TRAINED)

    @property
    def survey(self) -> Survey | None:
        """What the pilot found, if there was one."""
        return Survey.from_dict(self.read_json(SURVEY)) if self.has(SURVEY) else None

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


def batches(place: Path, rows: Sequence[Row], seeds: int) -> list[Batch]:
    """What there is and what is missing, so that every row has seeds 0 to `seeds` - 1; unfinished ones first.

    Raises:
        UsageError: the directory holds the same row with other settings.
    """
    there = [Batch.read(path.parent) for path in sorted(place.glob(f"*/{BATCH}"))]
    found = []
    for row in rows:
        mine = [batch for batch in there if (batch.row.name, batch.row.target) == (row.name, row.target)]
        for batch in mine:
            _require_same(batch, row)
        covered = {seed for batch in mine for seed in batch.seeds}
        missing = tuple(seed for seed in range(seeds) if seed not in covered)
        found += mine
        if missing:
            found.append(Batch(place / _folder(row, missing), row, missing))
    return sorted(found, key=lambda batch: not batch.begun)


def _folder(row: Row, seeds: Sequence[int]) -> str:
    return f"{row.name.replace('/', '-').replace('+', '-')}.{row.target}.seeds-{'-'.join(map(str, seeds))}"


def _require_same(batch: Batch, row: Row) -> None:
    one, other = _flat(batch.row.config), _flat(row.config)
    changed = [f"{name}: {one[name]!r} there, {other[name]!r} now" for name in one if one[name] != other[name]]
    if not changed:
        return
    raise UsageError(
        got=f"{batch.path}, where {row.name} has other settings ({'; '.join(changed)})",
        expected="one experiment a directory",
        todo="choose another --out, or remove that row's directory",
    )


def _flat(section: Any, prefix: str = "") -> dict[str, Any]:
    found = {}
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        inner = dataclasses.is_dataclass(value)
        found |= _flat(value, f"{prefix}{field.name}.") if inner else {prefix + field.name: value}
    return found
