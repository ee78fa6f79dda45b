"""Heartbeats to the manager, the performance line of the log (R017, R077), and free memory."""

from collections.abc import Mapping
from typing import Any

from delegates.agent.agent import Agent, LoadMeter, NotRegistered, log
from delegates.agent.manager_client import Backoff, ManagerUnreachable, RequestRefused
from guards.heap import release_free_memory

ACK_SECONDS = 10.0


def send_heartbeats(agent: Agent) -> None:
    """Send heartbeats until the agent ends; at once after registration and at the start of draining."""
    backoff = Backoff(first=1, most=15)
    while not agent.ended.is_set():
        agent.beat_now.clear()
        wait = agent.limits.heartbeat_seconds
        try:
            _send_heartbeat(agent)
            backoff.reset()
        except NotRegistered:
            agent.registered.wait(wait)
            continue
        except ManagerUnreachable as problem:
            log.warning("Could not send a heartbeat: %s", problem)
            wait = min(wait, backoff.next())
        except RequestRefused as refusal:
            log.error("The manager refused a heartbeat: %s", refusal)
        agent.beat_now.wait(wait)


def _send_heartbeat(agent: Agent) -> None:
    """Send a heartbeat over the socket if there is one (R015), or by POST if the socket gives no answer."""
    body = build_heartbeat(agent)
    agent.acknowledged.clear()
    agent.reported_fences = _get_fences(body)
    if (
        agent.registered.is_set()
        and agent.send_message({"type": "heartbeat", **body})
        and agent.acknowledged.wait(ACK_SECONDS)
    ):
        return
    # A late acknowledgement must not stop tasks: they may have come back with new fences by then.
    agent.reported_fences = {}
    post_heartbeat(agent, body)


def post_heartbeat(agent: Agent, body: Mapping[str, Any]) -> None:
    """Send a heartbeat by POST, and apply the response. Raises the errors of `Agent.post_with_session`."""
    response = agent.post_with_session("/agent/v1/heartbeat", body)
    agent.apply_heartbeat_response(response, _get_fences(body))


def _get_fences(body: Mapping[str, Any]) -> dict[str, int]:
    return {entry["id"]: entry["fence"] for entry in body["running"]}


def build_heartbeat(agent: Agent) -> dict[str, Any]:
    """Return the body of a heartbeat."""
    load = agent.load.read()
    return {
        "running": [{"id": task_id, "fence": fence} for task_id, fence in agent.work.list_fences().items()],
        "cpu_process": load.cpu_process,
        "cpu_system": load.cpu_system,
        "memory_mib": load.memory_mib,
        "max_executing": sum(agent.work.read_peak_counts("heartbeat")),
        "draining": agent.draining.is_set(),
        # The manager sends the configuration while this is not the current revision.
        "configuration_revision": str((agent.configuration or {}).get("revision") or ""),
    }


PERFORMANCE_INTERVAL_SECONDS = 60.0


def watch_resources(agent: Agent) -> None:
    """Each minute, log the six numbers of the load and release free memory, until the agent ends."""
    load = LoadMeter()
    while not agent.ended.wait(PERFORMANCE_INTERVAL_SECONDS):
        log.info(format_performance(agent, load))
        release_free_memory()


def format_performance(agent: Agent, load: LoadMeter) -> str:
    """Return the performance line in its documented format; its futures are the pool's tasks."""
    reading = load.read()
    executing, validating = agent.work.read_peak_counts("log")
    return (
        f"CPU Process: {reading.cpu_process:.1f}, CPU System: {reading.cpu_system:.1f}, "
        f"Max Executing Task Count: {executing}, Max Executing Future Count: {executing}, "
        f"Max Validating Task Count: {validating}, Max Validating Future Count: {validating}"
    )
