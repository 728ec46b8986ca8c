"""A headless Chromium, spoken to in its DevTools protocol over a pipe: messages are JSON, each ended by a zero byte."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
    "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One tab. `events` are the protocol's messages about it so far, in order."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command of the protocol."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        number = self._count
        while (answer := self._read()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._from, 1 << 16)
            if not data:
                raise RuntimeError("Chromium is gone")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, url: str) -> None:
        """Load a page and wait until all of it is there; `events` begins anew."""
        # A change of the fragment alone would not load anything.
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        loading = self.call("Page.navigate", url=url)["loaderId"]
        # The empty page may still have events to send: only those of this one count.
        while not any(
            event["name"] == "load" and event["loaderId"] == loading for event in self.methods("Page.lifecycleEvent")
        ):
            self.events.append(self._read())

    def run(self, script: str) -> Any:
        """The value of an expression in the page, as plain data; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        text = {"Space": " ", "Enter": "\r"}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            parameters = {"type": kind, "key": text or key, "code": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", **parameters, **({"text": text} if text and kind == "keyDown" else {}))

    def methods(self, *names: str) -> list[dict[str, Any]]:
        """Parameters of the events of these names so far."""
        return [event["params"] for event in self.events if event.get("method") in names]


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A fresh browser with one empty tab; it ends with the block."""
    assert PROGRAM is not None
    # The browser reads its commands from descriptor 3 and writes to 4. Descriptors above them are handed over and
    # moved by the shell, as this process may be using 3 and 4 itself.
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD, 20) for one in (commands, answers)]
    line = [PROGRAM, *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{moved[0]} 4>&{moved[1]}', "chromium", *line], pass_fds=moved,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for one in (commands, answers, *moved):
        os.close(one)
    try:
        yield Page(to_browser, from_browser)
    finally:
        # Without its pipe the browser leaves by itself.
        os.close(to_browser)
        os.close(from_browser)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
