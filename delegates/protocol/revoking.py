"""Ends what a token began, in the moment that somebody takes it back."""

from delegates.models import DelegateEvent, DelegateInstance, DelegateToken
from delegates.protocol import leases, notices
from delegates.protocol.happenings import called, note
from delegates.telling import tell
from web.clock import database_now


def end_sessions(token: DelegateToken) -> list[DelegateInstance]:
    """End all sessions that began with a token that was revoked, and give back whose they were.

    Call it in the transaction that revokes. Sockets are closed (4401) as soon as that is committed, and
    what these agents were doing is taken from them.
    """
    now = database_now()
    alive = DelegateInstance.objects.filter(token=token).exclude(status=DelegateInstance.Status.GONE)
    with_session = alive.exclude(session_hash="").select_related("delegate")
    ended = list(with_session.order_by("delegate__name", "pk"))
    for instance in ended:
        text = f"The session of {called(instance)} ended: the token {token.name} was revoked."
        note(instance, DelegateEvent.Kind.SESSION_ENDED, text, at=now)
    ids = [one.pk for one in ended]
    DelegateInstance.objects.filter(pk__in=ids).update(
        status=DelegateInstance.Status.GONE, connection=DelegateInstance.Connection.NONE
    )
    leases.end_leases(ended, now=now)
    notices.notify_ended(ids, "token_revoked")
    tell(*{one.delegate_id for one in ended})
    return ended
