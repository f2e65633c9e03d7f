"""A headless Chromium that a test drives, by the DevTools protocol over a pair of pipes."""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",  # containers and continuous integration run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """The browser that COVERLOCK_CHROMIUM names, or one on the path."""
    named = os.environ.get("COVERLOCK_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. Errors and warnings that its scripts print are collected in ``complaints``."""

    def __init__(self, to_browser: int, from_browser: int, browser: int) -> None:
        self._to, self._from, self._browser = to_browser, from_browser, browser
        self._numbers, self._received = count(1), b""
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol, and its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next(120)).get("id") != number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, address: str) -> None:
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=address)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, condition: str, seconds: float = 60) -> None:
        """Until a condition holds in the page."""
        end = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} does not hold; {self.complaints}")
            time.sleep(0.05)

    def choose_file(self, selector: str, path: Path) -> None:
        """Put a file into a file input, as a visitor does."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def drop_file(self, selector: str, path: Path) -> None:
        """Drag a file from the desktop onto an element, as a visitor does."""
        where = self.evaluate(
            f"(() => {{ const part = document.querySelector({selector!r}); part.scrollIntoView("
            "{behavior: 'instant', block: 'center'}); const box = part.getBoundingClientRect();"
            "return {x: box.x + box.width / 2, y: box.y + box.height / 2} })()"
        )
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, **where, data=data)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {" ": " ", "Enter": "\r"}.get(key)
            extra = {"text": text} if text and kind == "keyDown" else {}
            codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowLeft": 37}
            code = codes[key]
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code="Space" if key == " " else key,
                windowsVirtualKeyCode=code,
                **extra,
            )

    def appear(self, width: int, height: int, scheme: str = "light", scale: float = 1) -> None:
        """The size of the window and the visitor's colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def processor_seconds(self) -> float:
        """What all processes of the browser have computed so far, however busy the machine is."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self._browser:  # its session
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _next(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from], [], [], seconds)
            if not ready:
                raise TimeoutError("Chromium does not answer")
            block = os.read(self._from, 1 << 20)
            if not block:
                raise ConnectionError("Chromium has gone")
            self._received += block
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            said = details.get("exception", {}).get("description", details["text"])
            self.complaints.append(said)
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


@contextlib.contextmanager
def browsing(program: str) -> Iterator[Page]:
    """A fresh browser with one empty tab; it and all its processes end with the block."""
    profile = tempfile.mkdtemp(prefix="coverlock-chromium-")
    # Bash makes the protocol's pipes file descriptors 3 and 4; high numbers do not get in the way.
    browser_in, to_browser, from_browser, browser_out = map(_high, (*os.pipe(), *os.pipe()))
    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    shell = ["bash", "-c", f'exec "$@" 3<&{browser_in} 4>&{browser_out}', "bash", *command]
    process = subprocess.Popen(
        shell,
        pass_fds=(browser_in, browser_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(browser_in)
    os.close(browser_out)
    try:
        yield Page(to_browser, from_browser, process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(to_browser)
        os.close(from_browser)
        shutil.rmtree(profile, ignore_errors=True)


def _high(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 50)
    os.close(descriptor)
    return moved
