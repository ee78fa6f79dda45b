"""Renews the leases of running tasks, and stops what the manager gave to somebody else."""

from delegates.agent.manager import Refused, Unreachable
from delegates.agent.program import Agent, NotRegistered, log

# A connection that died without a word must leave time to renew over another one.
ANSWER_SECONDS = 5.0


def renewing(agent: Agent) -> None:
    """Renew all leases every few seconds while there are any."""
    while not agent.ended.wait(agent.terms.renew_seconds):
        held = agent.work.running()
        if not held:
            continue
        tasks = [{"id": one.task.id, "fence": one.task.fence} for one in held]
        try:
            answer = agent.ask("/agent/v1/tasks/renew", {"tasks": tasks}, read_seconds=ANSWER_SECONDS)
        except NotRegistered:
            continue
        except (Unreachable, Refused) as problem:
            log.warning("%d leases were not renewed: %s", len(tasks), problem)
            continue
        agent.work.stop(list(answer.get("aborted") or ()), list(answer.get("lost") or ()))
