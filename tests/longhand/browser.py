"""Chromium without a window, driven through Chrome's devtools protocol over a pipe: no websocket, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")
SECONDS = 60


def found():
    """The browser's path; None if there is none. LONGHAND_BROWSER names another."""
    return os.environ.get("LONGHAND_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one page."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.errors = []  # of the console, exceptions, and what could not be loaded
        self.requests = []
        reading, to_browser = os.pipe()
        from_browser, writing = os.pipe()
        # The protocol is on descriptors 3 and 4.
        command = f'exec "$@" 3<&{reading} 4>&{writing}'
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", command, "-", found(), *ARGUMENTS, "--remote-debugging-pipe",
             f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(reading, writing), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reading)
        os.close(writing)
        self.to_browser, self.from_browser = to_browser, from_browser
        self.number, self.session, self.received, self.waiting = 0, None, b"", []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.close(self.to_browser)
        self.process.terminate()
        self.process.wait(30)
        os.close(self.from_browser)
        self.folder.cleanup()

    def send(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            told = self.receive()
            if told.get("id") == self.number:
                assert "error" not in told, told
                return told["result"]
            self.hear(told)

    def receive(self):
        end = time.monotonic() + SECONDS
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self.from_browser, 1 << 20)
            assert more, "the browser has ended"
            self.received += more
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)

    def hear(self, told):
        method, about = told.get("method"), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(about["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(about["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.errors.append(str(about["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        self.waiting.append(method)

    def open(self, url):
        self.errors, self.requests, self.waiting = [], [], []
        self.send("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.waiting:
            self.hear(self.receive())
        self.settle()

    def settle(self):
        """Two frames later everything is drawn."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def value(self, expression):
        """What an expression of JavaScript is; promises are waited for."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def size(self, width, height, scale=1):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip

    def media(self, **features):
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.send("Emulation.setEmulatedMedia", features=listed)

    def centre(self, expression):
        """Where an element is: it is scrolled into view first."""
        return self.value(
            f"(() => {{ const one = {expression}; one.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            " const at = one.getBoundingClientRect();"
            " return [at.left + Math.min(at.width / 2, 120), at.top + at.height / 2]; })()"
        )

    def point(self, expression):
        x, y = self.centre(expression)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, expression):
        x, y = self.centre(expression)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def tap(self, expression):
        x, y = self.centre(expression)
        self.send("Emulation.setTouchEmulationEnabled", enabled=True)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def press(self, key, code=0):
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)
        self.settle()

    def screenshot(self, file, **clip):
        options = {"clip": {**clip, "scale": 1}} if clip else {}
        found = self.send("Page.captureScreenshot", format="png", **options)
        file.write_bytes(base64.b64decode(found["data"]))
