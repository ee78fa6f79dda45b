"""Sends the lines of delegate.log to the manager, so that its page shows them."""

from delegates.agent.backoff import Backoff
from delegates.agent.manager import Refused, Unreachable
from delegates.agent.program import Agent, NotRegistered

EVERY_SECONDS = 2.0
UNREADABLE = (400, 413)


def shipping(agent: Agent) -> None:
    """Send the log's new lines every other second."""
    backoff = Backoff(first=2, most=30)
    instance, number = "", 0
    while not agent.ended.wait(EVERY_SECONDS):
        try:
            if instance != agent.instance_id:
                # Another process of this instance may have sent lines before us: ask for the next number.
                number = _send(agent, 1, [])
                instance = agent.instance_id
            while lines := agent.outgoing.first():
                number = max(_send(agent, number, lines), number)
                agent.outgoing.sent(lines)
            backoff.reset()
        except Refused as refusal:
            if "next" in refusal.body:
                number = int(refusal.body["next"])
            elif refusal.status in UNREADABLE:
                # What it cannot take once, it never will.
                agent.outgoing.sent(agent.outgoing.first())
            agent.ended.wait(backoff.next())
        except (NotRegistered, Unreachable):
            agent.ended.wait(backoff.next())


def _send(agent: Agent, number: int, lines: list[str]) -> int:
    return int(agent.ask("/agent/v1/logs", {"sequence": number, "lines": lines}).get("next", 0))
