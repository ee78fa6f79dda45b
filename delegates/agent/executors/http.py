"""Asks one HTTP address."""

from delegates.agent.executors.answers import Answer, Surroundings, succeeded
from delegates.agent.work import Held
from guards.safe_http import Ask, ask


def run_http(held: Held, around: Surroundings) -> Answer:
    """Ask; every answer is a success, whatever its status. Raises what `ask` raises."""
    params = held.task.params
    asked = Ask(
        str(params.get("method") or "GET").upper(),
        str(params["url"]),
        headers={str(name): str(value) for name, value in (params.get("headers") or {}).items()},
        body=str(params.get("body") or "").encode(),
    )
    reply = ask(asked, around.way)
    return succeeded({"status": reply.status, "headers": dict(reply.headers), "body": reply.text})
