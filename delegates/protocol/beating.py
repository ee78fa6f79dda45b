"""A heartbeat by POST, for agents that have no socket."""

import asyncio

from delegates.protocol.heartbeats import Answer, Ended, read_beat
from delegates.protocol.hub import hub_here
from delegates.protocol.problems import DelegateRejected, ScopeArchived, SessionInvalid, TokenRevoked
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.protocol.threads import in_thread
from web.problems import NotAvailable

ANSWER_SECONDS = 10.0
_OVER = "Your session is over. Register again."
_REFUSALS = {one.code: one for one in (SessionInvalid, TokenRevoked, DelegateRejected, ScopeArchived)}


async def beat(request: AgentRequest, _receive: object) -> Reply:
    """POST /agent/v1/heartbeat: written together with those of sockets."""
    instance = await in_thread(instance_of, request.bearer)
    heartbeat = read_beat(instance.pk, request.fields())
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def answered(told: Answer) -> None:
        if not answer.done():
            answer.set_result(told)

    async with hub_here() as hub:
        hub.heartbeats.add(heartbeat, answered)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                told = await answer
        except TimeoutError as late:
            raise NotAvailable("The heartbeat could not be written yet. Send it again.") from late
    if isinstance(told, Ended):
        raise _REFUSALS[told.code](_OVER)
    return Reply(told)
