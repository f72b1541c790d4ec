"""Being asked to stop: the first time politely, the second time at once."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTICE = b"\nstopping: finishing the running step and committing it; once more stops at once\n"


class StopRequest:
    """While entered, the first Ctrl-C or SIGTERM only leaves its number here.

    The handlers that were there before come back with that first signal, so that a second one
    acts as it always did. Outside the main thread Python delivers no signals and nothing changes.

    Args:
        notify: say so on the standard error stream.
    """

    def __init__(self, notify: bool = True):
        self.number: int | None = None
        self._notify = notify
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._restore()
        if self._notify:
            os.write(2, _NOTICE)  # the one way to speak that is safe inside a handler

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
