"""Sign-in through a browser: a one-time code comes back to this machine, or is entered by hand."""

import base64
import hashlib
import os
import secrets
import socket
import sys
import threading
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import typer

from cli.client import ApiClient
from cli.console import print_text
from cli.credentials import SignIn
from cli.errors import CliError
from cli.text import clean_line

_PAGE: Final = "access/keys/command-line/"
_WAIT_SECONDS: Final = 300
_ANSWER: Final = (
    b"<!doctype html><meta charset=utf-8><title>Slipway</title>"
    b"<p>The command line is signed in. Continue in the terminal; you can close this page.</p>"
)


def sign_in_by_browser(url: str, *, is_local: bool) -> SignIn:
    """Return the sign-in that a user approves on a page of Slipway.

    With `is_local` a browser of this machine brings the code back; without it, or if no browser opens, the
    user enters the code. Raises `CliError` without a valid code.
    """
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    digest = hashlib.sha256(verifier.encode()).digest()
    request = {
        "challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "state": state,
        "host": socket.gethostname()[:40],
    }
    code = _receive_code(url, request) if is_local and _has_browser() else ""
    code = code or _ask_code(url, request)
    client = ApiClient(SignIn(url, ""))
    body = {"code": code, "verifier": verifier}
    key = client.send("POST", "command-line-sign-ins", body=body).document
    return SignIn(url, key["key"], clean_line(key["username"]), key["id"])


def _has_browser() -> bool:
    """Return whether a browser of this machine can be opened; over SSH it would open elsewhere."""
    is_remote = bool(os.environ.get("SSH_CONNECTION"))
    has_display = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    )
    return has_display and not is_remote


def _receive_code(url: str, request: dict[str, str]) -> str:
    """Open the page in a browser, and return the code that it brings back; empty if none comes."""
    with _CodeServer(request["state"]) as server:
        page = f"{url}/{_PAGE}?{urlencode({**request, 'port': server.server_port})}"
        print_text(f"Opening {page}", is_error=True)
        # A browser in the foreground returns when it is closed.
        threading.Thread(target=server.open_browser, args=(page,), daemon=True).start()
        print_text("Waiting for the browser. Ctrl-C to enter a code instead.", style="dim", is_error=True)
        try:
            return server.wait()
        except KeyboardInterrupt:
            return ""


def _ask_code(url: str, request: dict[str, str]) -> str:
    print_text(
        "Open this page in a browser, approve the sign-in, and enter the code that it shows:", is_error=True
    )
    print_text(f"{url}/{_PAGE}?{urlencode(request)}", is_error=True)
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    return str(typer.prompt("Code", hide_input=True, err=True)).strip()


class _CodeServer(HTTPServer):
    """Server on a free port of this machine that takes one code with the right state."""

    def __init__(self, state: str) -> None:
        super().__init__(("127.0.0.1", 0), _CodeHandler)
        self.state = state
        self.code = ""
        self.is_opened = True
        self.timeout = 1.0

    def open_browser(self, page: str) -> None:
        """Open a page, and end the wait if no browser opens."""
        self.is_opened = webbrowser.open(page)

    def wait(self) -> str:
        """Return the code, empty if no browser opens. Raises `CliError` after five minutes."""
        for _ in range(_WAIT_SECONDS):
            self.handle_request()
            if self.code or not self.is_opened:
                return self.code
        raise CliError(
            "Nobody approved the sign-in within five minutes.", next_step="Try again: slipway login"
        )


class _CodeHandler(BaseHTTPRequestHandler):
    """Request of the browser that brings the code."""

    server: _CodeServer
    timeout = 5

    def do_GET(self) -> None:
        """Take the code, if the request knows the state."""
        query = parse_qs(urlsplit(self.path).query)
        state, code = (query.get(name, [""])[0] for name in ("state", "code"))
        is_ours = bool(code) and secrets.compare_digest(state.encode(), self.server.state.encode())
        self.send_response(200 if is_ours else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        if is_ours:
            self.server.code = code
            self.wfile.write(_ANSWER)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the terminal belongs to the command."""
