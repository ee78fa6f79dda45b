"""Deregistering: an instance says goodbye, and what it still has is taken from it at once."""

from django.db import transaction

from delegates.models import DelegateEvent, DelegateInstance
from delegates.notifying import tell_away
from delegates.protocol import leases
from delegates.protocol.happenings import called, note
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.telling import tell
from web.clock import database_now


@transaction.atomic
def deregistered(request: AgentRequest) -> Reply:
    """POST /agent/v1/deregister: the session ends and the instance is gone."""
    instance, now = instance_of(request.bearer), database_now()
    DelegateInstance.objects.filter(pk=instance.pk).update(
        status=DelegateInstance.Status.GONE,
        connection=DelegateInstance.Connection.NONE,
        session_hash="",
        previous_session_hash="",
        session_expires_at=None,
        running=0,
    )
    leases.end_leases([instance], now=now)
    note(instance, DelegateEvent.Kind.GONE, f"{called(instance)} ended and said goodbye.", at=now)
    tell_away([instance], now)
    tell(instance.delegate_id)
    return Reply({})
