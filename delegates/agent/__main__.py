"""Entry point of the agent: start, loops, signals, drain (`python -m delegates.agent`)."""

import argparse
import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import NoReturn

from delegates.agent import VERSION
from delegates.agent.agent import Agent, NotRegistered, log
from delegates.agent.configuration_scripts import TOOLS_FOLDER, run_configuration_scripts
from delegates.agent.doctor import print_diagnosis
from delegates.agent.health_server import start_health_server
from delegates.agent.heartbeats import build_heartbeat, post_heartbeat, send_heartbeats, watch_resources
from delegates.agent.identity import IdentityUnavailable, read_identity
from delegates.agent.isolation import IsolationLevel, detect_isolation
from delegates.agent.logs.delegate_log import LogUploadBuffer, configure_logging
from delegates.agent.logs.uploads import upload_agent_log, upload_task_log, upload_task_logs
from delegates.agent.manager_client import Backoff, ManagerUnreachable, RequestRefused
from delegates.agent.manager_socket import listen_to_manager
from delegates.agent.registration import register
from delegates.agent.settings import (
    AgentSettings,
    InvalidEnvironment,
    configure_process_network,
    read_environment,
)
from delegates.agent.task_runner import renew_leases, run_tasks
from guards.environment_secrets import list_export_secrets, list_proxy_secrets
from guards.heap import allocate_large_blocks_apart, limit_heaps
from guards.tracing import start_tracing, stop_tracing

FINAL_UPLOAD_SECONDS = 10.0
# Time between the last upload and the moment in which the platform kills the agent.
_SIGN_OFF_SECONDS = 3.0


def install_signal_handlers(agent: Agent) -> None:
    """Install handlers of SIGTERM and SIGINT: the first signal drains, the second ends the agent."""
    # A signal interrupts the main thread anywhere, even in another signal's handler, while any lock may be
    # taken. This queue is safe there; a thread does the rest.
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.put(number))
    threading.Thread(target=_drain_on_signal, args=(agent, signals), name="ending", daemon=True).start()


def _drain_on_signal(agent: Agent, signals: "SimpleQueue[int]") -> None:
    signals.get()
    agent.drain()
    signals.get()
    agent.ended.set()


def drain_and_deregister(agent: Agent) -> None:
    """Wait for running tasks, send the rest of their logs, deregister."""
    with contextlib.suppress(NotRegistered, ManagerUnreachable, RequestRefused):
        # At once instead of with the next heartbeat: until then the manager may offer more tasks.
        post_heartbeat(agent, build_heartbeat(agent))
    drain_seconds = agent.settings.stop_seconds - FINAL_UPLOAD_SECONDS - _SIGN_OFF_SECONDS
    deadline = time.monotonic() + drain_seconds
    backoff, registers_at = Backoff(first=1, most=30), 0.0
    while not agent.work.idle.wait(0.2):
        if agent.ended.is_set() or time.monotonic() > deadline:
            log.warning("Stopping with %d unfinished tasks", len(agent.work.list_running()))
            break
        if not agent.registered.is_set() and time.monotonic() >= registers_at:
            # Without a session the results of the tasks could not be sent.
            registers_at = time.monotonic() + register(agent, backoff)
    _upload_remaining_logs(agent)
    with contextlib.suppress(NotRegistered, ManagerUnreachable, RequestRefused):
        agent.post_with_session("/agent/v1/deregister", {})
        log.info("Deregistered")
    agent.ended.set()


def _upload_remaining_logs(agent: Agent) -> None:
    deadline = time.monotonic() + FINAL_UPLOAD_SECONDS
    while (waiting := agent.spool.waiting()) and time.monotonic() < deadline and not agent.ended.is_set():
        for lines in waiting:
            upload_task_log(agent, lines)
        time.sleep(0.2)


_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Hide environment and memory in /proc from other processes of this user; root can still read them."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


LOOPS = {
    "heartbeats": send_heartbeats,
    "listening": listen_to_manager,
    "acquiring": run_tasks,
    "renewing": renew_leases,
    "uploading": upload_task_logs,
    "shipping": upload_agent_log,
    "configuring": run_configuration_scripts,
    "measuring": watch_resources,
}


def main() -> int:
    """Run until a signal arrives, and return the exit code: 2 for an invalid environment."""
    hide_memory()
    limit_heaps(1)
    allocate_large_blocks_apart()
    try:
        settings = read_environment(os.environ)
        agent = _build_agent(settings)
        server = start_health_server(agent)
    except (InvalidEnvironment, IdentityUnavailable, OSError) as problem:
        print(f"slipway-delegate cannot start: {problem}", file=sys.stderr)  # noqa: T201  -- there is no log yet
        return 2
    threading.excepthook = lambda broken: agent.fail(broken.exc_value or SystemError(str(broken.exc_type)))
    install_signal_handlers(agent)
    log.info("slipway-delegate %s, health on port %d", VERSION, server.server_port)
    log.info("isolation: %s", agent.isolation.level)
    agent.start({name: loop for name, loop in LOOPS.items() if name != "listening" or settings.uses_socket})
    _stay_registered(agent)
    if not agent.exit_code:
        drain_and_deregister(agent)
    return agent.exit_code


def _build_agent(settings: AgentSettings) -> Agent:
    os.umask(0o077)
    settings.home.mkdir(parents=True, exist_ok=True)
    isolation = detect_isolation().with_hidden(settings.home)
    if isolation.level == IsolationLevel.USERS:
        # This folder is not hidden; tasks may enter it but not list it.
        settings.home.chmod(0o711)
    tls = configure_process_network(os.environ, settings.home, settings.ca_bundle)
    outgoing = LogUploadBuffer()
    secrets = [settings.token, *list_proxy_secrets(), *list_export_secrets()]
    configure_logging(settings.home, secrets, outgoing, style=settings.log_style)
    start_tracing("slipway-delegate", secrets=secrets)
    # Scripts of tasks find the tools that a configuration's script installs there.
    tools = f"{settings.home / TOOLS_FOLDER / 'bin'}:{settings.home / 'bin'}"
    os.environ["PATH"] = f"{tools}:{os.environ.get('PATH', os.defpath)}"
    identity = read_identity(os.environ, settings.manager_url, kind=settings.kind)
    return Agent(settings, identity, tls, outgoing, isolation)


def _stay_registered(agent: Agent) -> None:
    """Register whenever there is no session, until the agent drains or ends."""
    backoff = Backoff(first=1, most=30)
    while not agent.draining.is_set() and not agent.ended.is_set():
        wait = 0.2 if agent.registered.is_set() else register(agent, backoff)
        agent.draining.wait(wait)


_DESCRIPTION = """The program of a delegate: it connects to Slipway, fetches tasks and runs them until a
signal ends it. Environment variables hold its settings; the documentation of Slipway lists them, and the page
of a new delegate shows the values."""


def parse_arguments(arguments: Sequence[str]) -> str:
    """Return the command: "doctor", or "" to start the agent.

    Answers `--version` and `--help`, and refuses all other arguments. Raises `SystemExit`.
    """
    parser = argparse.ArgumentParser("slipway-delegate", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"slipway-delegate {VERSION}")
    parser.add_argument(
        "command",
        nargs="?",
        choices=("doctor",),
        help="doctor: check the way to Slipway and AWS, and print each fault with its fix",
    )
    return parser.parse_args(arguments).command or ""


def run() -> NoReturn:
    """Run the program `slipway-delegate`."""
    if parse_arguments(sys.argv[1:]) == "doctor":
        sys.exit(print_diagnosis(os.environ))
    code = main()
    stop_tracing()
    logging.shutdown()
    # Threads of the pool may hang in a call; their leases expire.
    os._exit(code)


if __name__ == "__main__":
    run()
