"""Tells the manager each minute that this agent is alive, and how busy it is (R017)."""

from typing import Any

from delegates.agent.backoff import Backoff
from delegates.agent.manager import Refused, Unreachable
from delegates.agent.program import Agent, NotRegistered, log

ACK_SECONDS = 10.0


def heartbeats(agent: Agent) -> None:
    """Beat until the agent ends; at once after registering and when draining begins."""
    backoff = Backoff(first=1, most=15)
    while not agent.ended.is_set():
        agent.beat_now.clear()
        wait = agent.terms.heartbeat_seconds
        try:
            _beat(agent)
            backoff.reset()
        except NotRegistered:
            agent.registered.wait(wait)
            continue
        except Unreachable as problem:
            log.warning("A heartbeat did not arrive: %s", problem)
            wait = min(wait, backoff.next())
        except Refused as refusal:
            log.error("The manager refused a heartbeat: %s", refusal)
        agent.beat_now.wait(wait)


def _beat(agent: Agent) -> None:
    """Over the socket where there is one (R015); by POST if that is not answered."""
    body = heartbeat(agent)
    agent.acknowledged.clear()
    if (
        agent.registered.is_set()
        and agent.say({"type": "heartbeat", **body})
        and agent.acknowledged.wait(ACK_SECONDS)
    ):
        return
    agent.learn(agent.ask("/agent/v1/heartbeat", body))


def heartbeat(agent: Agent) -> dict[str, Any]:
    """The body of a heartbeat."""
    load = agent.load.read()
    return {
        "running": [{"id": held.task.id, "fence": held.task.fence} for held in agent.work.running()],
        "cpu_process": load.cpu_process,
        "cpu_system": load.cpu_system,
        "memory_mib": load.memory_mib,
        "max_executing": sum(agent.work.most_since_last_asked("heartbeat")),
        "draining": agent.draining.is_set(),
    }
