"""Chromium without a window, driven over its own protocol: no driver to install."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    " ": 32,
    "Enter": 13,
    "Tab": 9,
}


def find():
    """The program, or None."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """A browser with one page: run JavaScript, press keys, take pictures, collect complaints."""

    def __init__(self, width, height, *, dark=True, touch=False, scale=1):
        self.folder = Path(tempfile.mkdtemp(prefix="chromium-"))
        program = find()
        assert program, "no Chromium here"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
        flags += ["--remote-debugging-port=0", f"--user-data-dir={self.folder}", "about:blank"]
        self.process = subprocess.Popen(
            [program, *flags], stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.socket = connect(self._address(), max_size=None, open_timeout=60)
        self.sent, self.complaints = 0, []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": touch}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def _address(self):
        port = self.folder / "DevToolsActivePort"
        for _ in range(600):
            if port.is_file() and len(lines := port.read_text().split()) == 2:
                break
            time.sleep(0.1)
        browser = connect(f"ws://127.0.0.1:{lines[0]}{lines[1]}", open_timeout=60)
        with browser:
            browser.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            targets = json.loads(browser.recv(60))["result"]["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        return f"ws://127.0.0.1:{lines[0]}/devtools/page/{page}"

    def call(self, method, **parameters):
        """One command, answered; what the page complains of meanwhile is kept."""
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": parameters}))
        while True:
            said = json.loads(self.socket.recv(60))
            self._hear(said)
            if said.get("id") == self.sent:
                assert "error" not in said, said["error"]
                return said["result"]

    def _hear(self, said):
        method, about = said.get("method"), said.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"]))
        if method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"] + " " + about["entry"].get("url", ""))
        if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.complaints.append(str(about["args"]))

    def open(self, url):
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def get(self, expression):
        """The value of an expression of JavaScript."""
        said = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def wait(self, expression, seconds=30):
        """Until an expression is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.get(f"Boolean({expression})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {expression}")

    def press(self, key):
        """A key, down and up."""
        code = KEYS.get(key, ord(key[0].upper()))
        text = key if len(key) == 1 else ""
        about = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def click(self, selector):
        """The middle of an element, with the pointer."""
        self.get(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        x, y = self.get(
            f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            place = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **place)

    def slide(self, selector, value):
        """Move a slider."""
        self.get(
            f"(() => {{ const s = document.querySelector({selector!r}); s.value = {value};"
            " s.dispatchEvent(new Event('input', {bubbles: true}));"
            " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def picture(self, path, *, whole=False):
        """What the page looks like."""
        said = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(said["data"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)
