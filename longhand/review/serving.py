"""The review page at 127.0.0.1, for as long as somebody looks: made anew at each visit, so that an edit shows.

Only this machine reaches it, and only by its own name: a page elsewhere that has its name lead here (DNS rebinding) is
sent away by the Host header. Nothing but the one page is served; nothing can be posted.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable

from longhand.emit.text.quoting import visible
from longhand.errors import LonghandError, OptionError

_HERE = "127.0.0.1"


def serve(page: Callable[[], str], port: int, tell: Callable[[str], None]) -> None:
    """Serves until Ctrl-C.

    Args:
        page: Makes the page.
        port: 0 takes a free one.
        tell: Is told the address.

    Raises:
        OptionError: The port is taken.
    """
    try:
        server = page_server(page, port)
    except OSError as error:
        raise OptionError(
            f"--serve {port}: {error.strerror or error}.", hint="Choose another port; 0 takes a free one."
        ) from error
    tell(f"http://{_HERE}:{server.server_address[1]}/")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            threading.Thread(target=server.shutdown, daemon=True).start()


def page_server(page: Callable[[], str], port: int) -> http.server.ThreadingHTTPServer:
    """The server, not yet started.

    Raises:
        OSError: The port is taken.
    """

    class PageHandler(http.server.BaseHTTPRequestHandler):
        """Answers with the page, or with nothing."""

        server_version, sys_version = "longhand", ""

        def do_GET(self) -> None:
            """The page."""
            own = self.server.server_address[1]  # type: ignore[index]
            if self.headers.get("Host") not in (f"{_HERE}:{own}", f"localhost:{own}"):
                self._answer(403, "text/plain", "This page is for this machine alone.\n")
            elif self.path.partition("?")[0] != "/":
                self._answer(404, "text/plain", "There is one page: /\n")
            else:
                try:
                    self._answer(200, "text/html", page())
                except LonghandError as error:
                    self._answer(500, "text/plain", f"{visible(str(error))}\n")

        def _answer(self, code: int, kind: str, text: str) -> None:
            body = text.encode("utf-8", "replace")
            self.send_response(code)
            for name, value in (
                ("Content-Type", f"{kind}; charset=utf-8"),
                ("Content-Length", str(len(body))),
                ("Cache-Control", "no-store"),
                ("X-Content-Type-Options", "nosniff"),
                ("X-Frame-Options", "DENY"),
                ("Cross-Origin-Resource-Policy", "same-origin"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing of each visit."""

    return http.server.ThreadingHTTPServer((_HERE, port), PageHandler)
