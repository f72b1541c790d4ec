"""Failures that a user can do something about: what was got, what was expected, what to do."""

import difflib
import signal
from collections.abc import Iterable


class TemperflowError(Exception):
    """One clear message and the status a program should exit with.

    Args:
        got: what was found.
        expected: what would have been right; may be left out where `got` says it all.
        todo: what to do about it.

    >>> print(UsageError(got="dim=0", expected="a positive dimension", todo="pass dim=2, say"))
    got dim=0
    expected a positive dimension
    to do: pass dim=2, say
    """

    exit_status = 1

    def __init__(self, *, got: str, expected: str = "", todo: str = ""):
        self.got, self.expected, self.todo = got, expected, todo
        lines = [f"got {got}"]
        if expected:
            lines.append(f"expected {expected}")
        if todo:
            lines.append(f"to do: {todo}")
        super().__init__("\n".join(lines))


class UsageError(TemperflowError):
    """The input, the place or the machine will not do; found before or between computations."""

    exit_status = 2


class NumericalError(TemperflowError):
    """The numbers went bad and going back once did not help."""

    exit_status = 3


class Interrupted(TemperflowError):
    """A signal stopped the run, after its state was committed.

    Args:
        number: the signal.
        at: where the run stands.
        directory: what to resume.

    >>> import signal
    >>> Interrupted(signal.SIGTERM, "epoch 7 of 20", "runs/mine").exit_status
    143
    """

    def __init__(self, number: int, at: str, directory: str):
        name = signal.Signals(number).name
        super().__init__(
            got=f"{name} at {at}",
            expected="to finish; everything up to here is committed",
            todo=f"resume {directory}: it ends with the same parameters as if it had not been stopped",
        )
        self.number = int(number)

    @property
    def exit_status(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 128 + self.number


def suggestion(got: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about a word that is not known.

    >>> suggestion("gmm04", ["gmm40", "funnel"], otherwise="choose one")
    "did you mean 'gmm40'?"
    >>> suggestion("xyz", ["gmm40", "funnel"], otherwise="choose one")
    'choose one'
    """
    nearest = difflib.get_close_matches(got, list(known), n=1, cutoff=0.4)
    return f"did you mean {nearest[0]!r}?" if nearest else otherwise
