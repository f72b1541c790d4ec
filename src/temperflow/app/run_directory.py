"""Where the files of a run are, and that a directory holds one run and no other."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temperflow.app.build import Survey
from temperflow.app.config import Config
from temperflow.app.errors import UsageError
from temperflow.app.files import digest, explained, to_json, write_atomically
from temperflow.app.manifest import NAME as MANIFEST
from temperflow.app.manifest import Manifest, Refused
from temperflow.app.origin import Origin
from temperflow.app.preflight import same_fingerprint

CONFIG, SURVEY, SAMPLER, EVENTS = "config.json", "survey.json", "sampler.safetensors", "events.jsonl"
METRICS, VERDICT, REPORT = "metrics.json", "verdict.json", "report.html"
# Written piece by piece while a run goes on, so no digest of it would hold.
_LIVE = (EVENTS, MANIFEST)


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run: what `config.json` holds.

    Args:
        config: the recipe with its overrides.
        target: where the target comes from.
        seed: of all randomness.
        fingerprint: the target's values at a few fixed points.
    """

    config: Config
    target: Origin
    seed: int
    fingerprint: tuple[float | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "format": 1,
            "target": self.target.to_dict(),
            "seed": self.seed,
            "config": self.config.to_dict(),
            "fingerprint": list(self.fingerprint),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Settings":
        """The inverse of `to_dict`."""
        config, origin = Config.from_dict(values["config"]), Origin.from_dict(values["target"])
        return cls(config, origin, int(values["seed"]), tuple(values["fingerprint"]))

    def differences(self, other: "Settings") -> list[str]:
        """Fields by path in which two runs differ, with both values."""
        mine, others = dict(_leaves(self.to_dict())), dict(_leaves(other.to_dict()))
        names = [name for name in {**mine, **others} if not name.startswith("fingerprint")]
        found = [
            f"{name}: {mine.get(name)!r} there, {others.get(name)!r} now"
            for name in names
            if mine.get(name) != others.get(name)
        ]
        if not same_fingerprint(self.fingerprint, other.fingerprint):
            found.append("target: its log density has other values now")
        return found


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run, by what they are.

    Args:
        path: the directory.
    """

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def events(self) -> Path:
        return self.path / EVENTS

    @property
    def finished(self) -> bool:
        """Whether the trained sampler has been committed."""
        try:
            return SAMPLER in Manifest.read(self.path).files
        except Refused:
            return False

    @property
    def identity(self) -> str:
        """What checkpoints of this run are recognised by."""
        return digest(self.path.joinpath(CONFIG).read_bytes())

    def exists(self) -> bool:
        """Whether a run has been started here."""
        return (self.path / CONFIG).is_file() and (self.path / MANIFEST).is_file()

    def prepare(self) -> None:
        """Make the directory, and refuse one that holds something else."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(got=f"{self.path}, a file", expected="a directory", todo="choose another `out`")
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            others = [entry.name for entry in self.path.iterdir() if not entry.name.startswith(".")]
        # A process that died while it wrote its first file leaves the settings alone behind.
        if set(others) - {CONFIG} and not self.exists():
            raise UsageError(
                got=f"{self.path}, which holds {others[0]!r} and no run",
                expected="a new or empty directory, or that of a run",
                todo="choose another `out`",
            )

    def begin(self, settings: Settings) -> None:
        """Write what decides the run."""
        self.write(CONFIG, to_json(settings.to_dict()))

    def settings(self) -> Settings:
        """What decides the run that is here."""
        content = self._sound(CONFIG)
        try:
            return Settings.from_dict(json.loads(content))
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(
                got=f"{self.path / CONFIG} that this version cannot read ({error})",
                expected="settings as this version of temperflow writes them",
                todo="use the version in manifest.json, or start a new directory",
            ) from error

    def survey(self) -> Survey | None:
        """What the pilot found, if there was one."""
        if not (self.path / SURVEY).is_file():
            return None
        return Survey.from_dict(json.loads(self._sound(SURVEY)))

    def write(self, name: str, content: bytes) -> None:
        """Put a file in place and list it: the way for whatever belongs to the run, pictures included."""
        write_atomically(self.path / name, content)
        self.seal([name])

    def read_json(self, name: str) -> dict[str, Any] | None:
        """A JSON file of the run, checked, or None where it has not been written."""
        return json.loads(self._sound(name)) if (self.path / name).is_file() else None

    def seal(self, names: list[str]) -> None:
        """List files that are in place in the manifest, under their present contents."""
        contents = {name: (self.path / name).read_bytes() for name in names if name not in _LIVE}
        try:
            before = dict(Manifest.read(self.path).files)
        except Refused:
            before = {}
        new = Manifest.of(contents, {})
        Manifest({**before, **new.files}, {}, new.versions).write(self.path)

    def sampler_bytes(self) -> bytes:
        """The trained arrays, checked."""
        if not self.exists():
            raise UsageError(
                got=f"{self.path}, which holds no run",
                expected="a directory that `temperflow run` or `fit` made",
                todo="check the path",
            )
        if not (self.path / SAMPLER).is_file():
            raise UsageError(
                got=f"{self.path}, whose training has not finished",
                expected="a finished run",
                todo=f"temperflow resume {self.path}",
            )
        return self._sound(SAMPLER)

    def _sound(self, name: str) -> bytes:
        return Manifest.read(self.path).load(self.path, name)


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, list(value) if isinstance(value, tuple) else value
