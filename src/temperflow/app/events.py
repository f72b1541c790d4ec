"""What happened in a run, one JSON object a line: the truth that every display reads."""

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from temperflow.app.files import explained
from temperflow.app.manifest import Refused

Event = dict[str, Any]
Reader = Callable[[Event], None]
# These say from which epoch the run went on; what had been recorded beyond it was undone.
REWINDS = ("resumed", "rolled_back")


class EventLog:
    """Appends to `events.jsonl` and shows each event to whoever reads along.

    Every event has `time` (seconds since 1970) and `kind`. A number that is not finite is null.

    Args:
        path: the file; a line that an earlier process left unfinished is cut off.
        readers: called with each event.
    """

    def __init__(self, path: Path, readers: Sequence[Reader] = ()):
        self._path, self._readers = path, tuple(readers)
        with explained(path):
            _cut_unfinished_line(path)
            # Unbuffered: what could not be written must not be tried again on closing.
            self._file = path.open("ab", buffering=0)

    def write(self, kind: str, **fields: Any) -> None:
        """Record one event."""
        self.write_all([{"kind": kind, **fields}])

    def write_all(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Record several at once; each names its `kind`."""
        now = round(time.time(), 3)
        finished = [{"time": now, **{name: _plain(value) for name, value in event.items()}} for event in events]
        lines = "".join(json.dumps(event, allow_nan=False, ensure_ascii=False) + "\n" for event in finished)
        with explained(self._path):
            _append(self._file, lines.encode())
        for event in finished:
            for reader in self._readers:
                reader(event)

    def sync(self) -> None:
        """Make what has been recorded survive a loss of power."""
        with explained(self._path):
            os.fsync(self._file.fileno())

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read(path: Path) -> list[Event]:
    """All events of a file. An unfinished last line is not an event; anything else unreadable is refused."""
    if not path.exists():
        return []
    *lines, _unfinished = path.read_bytes().split(b"\n")
    events = []
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or "kind" not in event:
            raise Refused(
                got=f"line {number} of {path}, which is no event",
                expected="a JSON object a line",
                todo="remove the line; a run can be resumed and sampled from without its events",
            )
        events.append(event)
    return events


def history(events: Iterable[Event]) -> list[Event]:
    """The epochs that led to where the run stands, in order, without those that were done over.

    >>> done = [{"kind": "epoch", "epoch": 1}, {"kind": "epoch", "epoch": 2}]
    >>> again = [{"kind": "resumed", "epoch": 1}, {"kind": "epoch", "epoch": 2, "loss": 0.1}]
    >>> history([*done, *again])
    [{'kind': 'epoch', 'epoch': 1}, {'kind': 'epoch', 'epoch': 2, 'loss': 0.1}]
    """
    epochs: list[Event] = []
    for event in events:
        if event["kind"] in REWINDS:
            epochs = [record for record in epochs if record["epoch"] <= event["epoch"]]
        elif event["kind"] == "epoch":
            epochs.append(event)
    return epochs


def _plain(value: Any) -> Any:
    """Null for what JSON cannot say."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _append(file: FileIO, content: bytes) -> None:
    """All of it or nothing."""
    before = os.fstat(file.fileno()).st_size
    try:
        while content:
            content = content[file.write(content) :]
    except OSError:
        file.truncate(before)
        raise


def _cut_unfinished_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
