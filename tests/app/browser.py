"""A page in headless Chromium, over the DevTools protocol on a pair of pipes: no driver, no port, no network."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
# Chromium reads commands from descriptor 3 and answers on 4. Not every shell can put pipes of two-digit numbers there.
LAUNCHER = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page. `errors` and `requests` fill while it is looked at.

    Args:
        profile: an empty folder for Chromium's own files.
    """

    def __init__(self, profile):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        words = [sys.executable, "-ISc", LAUNCHER, str(to_read), str(to_write), PROGRAM, *OPTIONS]
        self._process = subprocess.Popen(
            [*words, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.errors, self.requests, self._rest, self._count, self._session = [], [], b"", 0, None
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")

    def command(self, method, **params):
        """Carry out one command of the protocol and return its answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, address, width=1280, height=900, dark=False, media=""):
        """Show a page at a width in CSS pixels, in light or dark, on screen or as for print."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1 if width > 600 else 2,
            mobile=width < 600,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.command("Page.navigate", url=address)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        """The value of a JavaScript expression; what it promises, if it promises one."""
        answer = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, file, whole=True):
        """A PNG of the whole page, or of what one sees of it first."""
        answer = self.command("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def paper(self, file):
        """The page printed to PDF."""
        answer = self.command("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    def close(self):
        """Leave no process behind."""
        with contextlib.suppress(OSError):
            os.close(self._to)
        self._process.kill()
        self._process.wait()
        os.close(self._from)

    def _next(self):
        while b"\0" not in self._rest:
            found = os.read(self._from, 1 << 16)
            assert found, "Chromium has gone"
            self._rest += found
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            case "Runtime.consoleAPICalled" if message["params"]["type"] in ("error", "warning", "assert"):
                self.errors.append(message["params"])
            case "Log.entryAdded" if message["params"]["entry"]["level"] in ("error", "warning"):
                self.errors.append(message["params"]["entry"])
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        return message
