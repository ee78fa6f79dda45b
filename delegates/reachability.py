"""What delegates can reach: the allow list of six hours and the block list of five minutes (R034-R038)."""

from datetime import timedelta

from django.db import transaction

from connectors.models import Connector
from delegates.models import AllowlistEntry, BlocklistEntry, Delegate, DelegateEvent, LastServed
from delegates.telling import tell
from web.clock import database_now

ALLOWED_FOR = timedelta(hours=6)
BLOCKED_FOR = timedelta(minutes=5)


@transaction.atomic
def note_success(delegate: Delegate, criterion: str, connector: Connector | None = None) -> None:
    """A delegate reached a criterion's URL: it is tried first for six hours from now (R036).

    With a connector, also that it served this one last (R044). An answer that is an error counts too: it
    came from the other end.
    """
    now = database_now()
    if connector:
        LastServed.objects.update_or_create(connector=connector, defaults={"delegate": delegate, "at": now})
    if not criterion:
        return
    BlocklistEntry.objects.filter(delegate=delegate, criterion=criterion).delete()
    AllowlistEntry.objects.update_or_create(
        delegate=delegate,
        criterion=criterion,
        defaults={"validated_at": now, "expires_at": now + ALLOWED_FOR},
    )


@transaction.atomic
def note_incapable(delegate: Delegate, criterion: str, reason: str) -> None:
    """A delegate lacks what a criterion needs: no such task for five minutes, even as the only one."""
    if not criterion:
        return
    now = database_now()
    AllowlistEntry.objects.filter(delegate=delegate, criterion=criterion).delete()
    BlocklistEntry.objects.update_or_create(
        delegate=delegate,
        criterion=criterion,
        defaults={"expires_at": now + BLOCKED_FOR, "reason": reason},
    )
    DelegateEvent.objects.create(
        scope_id=delegate.scope_id,
        delegate=delegate,
        name=delegate.name,
        at=now,
        kind=DelegateEvent.Kind.BLOCKED,
        text=f"No tasks for {criterion} for five minutes: {reason}",
    )
    tell(delegate.pk)
