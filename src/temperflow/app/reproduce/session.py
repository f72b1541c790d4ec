"""One sitting at an experiment: how long it may last, what to note down, whom to tell, how it is stopped."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import jax

from temperflow.app.errors import Interrupted, TemperflowError
from temperflow.app.manifest import versions
from temperflow.app.reproduce.budget import Budget
from temperflow.app.signals import SIGNALS

# A copy of the sources without their history can be told here where it came from.
COMMIT_VARIABLE = "TEMPERFLOW_COMMIT"


@dataclass(frozen=True)
class Session:
    """What every stage of an experiment is told.

    Args:
        n: draws an evaluation redraw.
        trials: evaluation redraws.
        budget: when to stop.
        command: the words that led here, for the record.
        say: told how far it is.
        checkpoint_every: seconds between checkpoints.
    """

    n: int = 2500
    trials: int = 10
    budget: Budget = field(default_factory=lambda: Budget(None))
    command: str = ""
    say: Callable[[str], None] = lambda text: None
    checkpoint_every: float = 120.0

    def origin(self) -> dict[str, object]:
        """Where and with what a result was made."""
        return {"device": device(), "versions": versions(), "commit": commit(), "command": self.command}


class Stopped(Interrupted):
    """A signal ended a session; everything before is committed.

    Args:
        number: the signal.
        at: what was going on.
    """

    def __init__(self, number: int, at: str):
        self.number = int(number)
        TemperflowError.__init__(
            self,
            got=f"{signal.Signals(number).name} at {at}",
            expected="to finish; everything up to here is committed",
            todo="give the same command again: it ends with the same figures as if it had not been stopped",
        )


@contextmanager
def stoppable(at: str) -> Iterator[None]:
    """While entered, Ctrl-C and SIGTERM raise `Stopped` at once: for work that is quickly done again.

    Outside the main thread Python delivers no signals and nothing changes.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number, at)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def device() -> str:
    """What computes here."""
    return jax.devices()[0].device_kind


def commit() -> str:
    """The sources' commit, with `+changes` where files differ from it; `unknown` where nothing tells."""
    folder = Path(__file__).parent
    try:
        words = ["git", "-C", str(folder)]
        head = subprocess.run([*words, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        package = str(folder.parents[1])
        status = [*words, "status", "--porcelain", "--", package]
        changed = subprocess.run(status, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get(COMMIT_VARIABLE, "unknown")
    return head.stdout.strip() + ("+changes" if changed.stdout.strip() else "")
