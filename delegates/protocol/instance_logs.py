"""The log of an agent itself: numbered lines, each kept once."""

from django.db import transaction

from delegates.log_news import SUBJECT
from delegates.models import DelegateInstance, DelegateLogChunk
from delegates.protocol.fields import bad, storable
from delegates.protocol.problems import LogGap
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from guards.limits import AGENT_LINES
from web.news import changed

FIRST = 1


def next_of(instance_id: int) -> int:
    """The number of the line that is expected next."""
    last = DelegateLogChunk.objects.filter(instance_id=instance_id).order_by("-sequence").first()
    return FIRST if last is None else last.sequence + last.count


def logged(request: AgentRequest) -> Reply:
    """POST /agent/v1/logs: lines of delegate.log; repeats are fine, a gap is told."""
    instance, fields = instance_of(request.bearer), request.fields()
    sequence, lines = fields.whole("sequence", FIRST, 2**62), fields.body.get("lines")
    if not isinstance(lines, list) or not all(isinstance(one, str) for one in lines):
        raise bad("lines", "must be a list of texts")
    if len(lines) > AGENT_LINES:
        raise bad("lines", f"may hold {AGENT_LINES}")
    return Reply({"next": _keep(instance, sequence, lines)})


@transaction.atomic
def _keep(instance: DelegateInstance, sequence: int, lines: list[str]) -> int:
    # One writer at a time for each instance: its row is the lock.
    DelegateInstance.objects.select_for_update(of=("self",)).get(pk=instance.pk)
    expected = next_of(instance.pk)
    if sequence > expected:
        raise LogGap(f"Lines from {expected} on are missing. Send them first.", expected=expected)
    fresh = lines[expected - sequence :]
    if fresh:
        text = "\n".join(storable(one).replace("\n", " ") for one in fresh)
        DelegateLogChunk.objects.create(instance=instance, sequence=expected, count=len(fresh), text=text)
        changed(SUBJECT, instance.delegate_id)
    return expected + len(fresh)
