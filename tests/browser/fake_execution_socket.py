"""The network of the execution page in the hand of a test: a socket and a log that it fills itself."""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route, WebSocketRoute

from deployments.execution.documents import build_execution_document
from deployments.log.lines import BlockEntry, LogBlock, encode_blocks, to_microseconds
from deployments.models import Execution
from rbac.models import User

LARGEST_PAGE = 1000


def line(number: int, text: str = "", level: str = "info", unit: str = "Deploy") -> dict[str, Any]:
    """One line of the log as the server sends it."""
    at = f"2026-11-21T10:{number // 60 % 60:02}:{number % 60:02}.{number % 1000:03}000+00:00"
    step = "ecs_rolling_deploy"
    return {
        "number": number,
        "at": at,
        "step": step,
        "unit": unit,
        "level": level,
        "origin": "slipway",
        "text": text or f"line {number}",
    }


def blocks_of(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines in blocks, one for each stretch without a gap."""
    stretches: list[list[dict[str, Any]]] = []
    for line in lines:
        if stretches and stretches[-1][-1]["number"] + 1 == line["number"]:
            stretches[-1].append(line)
        else:
            stretches.append([line])
    return [json.loads(block.body) for stretch in stretches for block in _encoded(stretch)]


def _encoded(stretch: list[dict[str, Any]]) -> list[LogBlock]:
    return encode_blocks(
        stretch[0]["number"],
        [
            BlockEntry(
                to_microseconds(datetime.fromisoformat(line["at"])),
                (line["step"], line["unit"], line["level"], line["origin"]),
                line["text"],
            )
            for line in stretch
        ],
    )


class Wire:
    """The page's socket and requests; `log` holds the server's lines, sent over the socket or not."""

    def __init__(self, page: Page, execution: Execution) -> None:
        self.page = page
        self.log: list[dict[str, Any]] = []
        self.requested_positions: list[int] = []
        self.searched: list[dict[str, str]] = []
        self.connected: list[int] = []
        self.refuses = False
        self.most_lines = LARGEST_PAGE
        self.sockets: list[WebSocketRoute] = []
        # Read before the page is opened: an actor is needed for what the buttons may do.
        actor = User.objects.get(username="deployer")
        self.state = build_execution_document(Execution.objects.get(pk=execution.pk), actor)
        page.route_web_socket(re.compile("/ws/executions/"), self._open)
        page.route(re.compile(r"/api/v1/executions/[^/]+$"), lambda route: self._answer(route, self.state))
        page.route(re.compile(r"/api/v1/executions/[^/]+/log"), self._read)

    def send_lines(self, *lines: dict[str, Any]) -> None:
        """Send lines through the socket."""
        self._send({"type": "lines", "blocks": blocks_of(lines)})

    def skip(self, first: int, last: int) -> None:
        """Say that lines were left out because the page was too slow."""
        self._send({"type": "skipped", "first": first, "last": last})

    def change(self, **news: Any) -> None:
        """Send a state that differs from the one before."""
        self.state = {**self.state, **news}
        self._send({"type": "state", "state": self.state})

    def end(self) -> None:
        self._send({"type": "end", "last": len(self.log)})

    def _send(self, message: dict[str, Any]) -> None:
        self.sockets[-1].send(json.dumps(message))

    def _open(self, socket: WebSocketRoute) -> None:
        after = int(parse_qs(urlsplit(socket.url).query)["after"][0])
        self.connected.append(after)
        if self.refuses:
            socket.close(code=1013)
            return
        self.sockets.append(socket)
        missed = [line for line in self.log if line["number"] > after]
        if missed and len(self.connected) > 1:
            self.send_lines(*missed)

    def _read(self, route: Route) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        if urlsplit(route.request.url).path.endswith("/search"):
            self._search(route, query)
            return
        after = int(query["after"])
        self.requested_positions.append(after)
        lines = [line for line in self.log if line["number"] > after][: self.most_lines]
        self._answer(route, {"blocks": blocks_of(lines), "end": False})

    def _search(self, route: Route, query: dict[str, str]) -> None:
        """Search like the server, two thousand lines at a time."""
        self.searched.append(query)
        after = int(query["after"])
        levels = query.get("level", "").split(",")
        numbers = [
            line["number"]
            for line in self.log[after : after + 2 * LARGEST_PAGE]
            if query.get("q", "") in line["text"] and (levels == [""] or line["level"] in levels)
        ]
        more = after + 2 * LARGEST_PAGE
        self._answer(route, {"numbers": numbers, "next": more if more < len(self.log) else None})

    @staticmethod
    def _answer(route: Route, content: dict[str, Any]) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps(content))
