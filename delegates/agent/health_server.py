"""HTTP server of /api/health, /api/started, /api/ready and /api/metrics."""

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from delegates.agent import VERSION
from delegates.agent.agent import Agent

_PATHS = "Ask for /api/health, /api/started, /api/ready or /api/metrics.\n"


def start_health_server(agent: Agent) -> ThreadingHTTPServer:
    """Listen in a thread. Raises `OSError` if the port is taken."""
    server = ThreadingHTTPServer(("0.0.0.0", agent.settings.port), _build_handler(agent))  # noqa: S104  -- in a container
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="serving", daemon=True).start()
    return server


def _build_handler(agent: Agent) -> type[BaseHTTPRequestHandler]:
    class HealthHandler(BaseHTTPRequestHandler):
        # A silent peer must not block a thread.
        timeout = 5
        server_version, sys_version = "slipway-delegate", ""

        def do_GET(self) -> None:  # the name is the standard library's
            if self.path == "/api/metrics":
                self._send_response(200, "text/plain; version=0.0.4", render_metrics(agent))
            elif (status := _get_response_status(agent, self.path)) != HTTPStatus.NOT_FOUND:
                self._send_response(status, "application/json", json.dumps(build_health(agent)))
            else:
                self._send_response(status, "text/plain", _PATHS)

        def _send_response(self, status: int, content_type: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{content_type}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Discard the line: health checks every few seconds would fill the log."""

    return HealthHandler


def _get_response_status(agent: Agent, path: str) -> HTTPStatus:
    """Return the status of the response about the agent's health."""
    passed = {
        "/api/health": True,
        # A restart helps nobody while the manager is away: an agent that has registered stays started.
        "/api/started": agent.started.is_set(),
        "/api/ready": _get_status(agent) == "registered",
    }
    if path not in passed:
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.OK if passed[path] else HTTPStatus.SERVICE_UNAVAILABLE


def build_health(agent: Agent) -> dict[str, object]:
    """Return the agent's health; it is healthy while it runs, even without a manager."""
    return {
        "status": _get_status(agent),
        "version": VERSION,
        "connection": _get_connection(agent),
        "running_tasks": len(agent.work.list_running()),
    }


def _get_status(agent: Agent) -> str:
    if agent.draining.is_set() or agent.drain_requested:
        return "draining"
    return "registered" if agent.registered.is_set() else "registering"


def _get_connection(agent: Agent) -> str:
    if agent.has_socket:
        return "websocket"
    return "polling" if agent.registered.is_set() else "none"


def render_metrics(agent: Agent) -> str:
    """Return the numbers of the agent in Prometheus' text format."""
    work, load = agent.work, agent.metrics_load.read()
    numbers = [
        ("connected", "gauge", "Whether the instance is registered", int(agent.registered.is_set())),
        ("websocket", "gauge", "Whether the WebSocket is open", int(agent.has_socket)),
        ("tasks_running", "gauge", "Running tasks", len(work.list_running())),
        ("tasks_capacity", "gauge", "Task capacity", work.capacity),
        ("tasks_total", "counter", "Finished tasks", work.ended_count),
        ("tasks_failed_total", "counter", "Failed tasks", work.failed_count),
        ("spool_bytes", "gauge", "Log lines spooled on disk", agent.spool.size),
        ("memory_bytes", "gauge", "Resident memory", int(load.memory_mib * 1024 * 1024)),
        ("cpu_process_percent", "gauge", "Processor time of this process", load.cpu_process),
        ("cpu_system_percent", "gauge", "Processor time of the machine", load.cpu_system),
    ]
    return "".join(
        f"# HELP slipway_delegate_{name} {text}\n# TYPE slipway_delegate_{name} {kind}\n"
        f"slipway_delegate_{name} {value}\n"
        for name, kind, text, value in numbers
    )
