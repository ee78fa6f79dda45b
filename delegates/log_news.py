"""What pages hear of agents' own logs: that there are more lines."""

from collections.abc import Collection
from typing import Final

from django.db.models import Max

from delegates.models import Delegate, DelegateLogChunk
from rbac.policy import Place
from web.news import Audience, Shown, Subject, at_places
from web.news.subjects import keys_of

VIEW: Final = "core_delegate_view"
SUBJECT: Final = "delegate-logs"


def log_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """The newest line of the logs of these delegates, or of all; one query."""
    chunks = DelegateLogChunk.objects.all()
    if keys is not None:
        chunks = chunks.filter(instance__delegate__in=list(keys_of(Delegate, keys)))
    columns = ("instance__delegate_id", "instance__delegate__scope_id", "instance__delegate__name")
    rows = chunks.order_by().values_list(*columns).annotate(newest=Max("pk"))
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, scope, name, newest in rows:
        audience = Audience(Place(scope, {"delegate": name}), VIEW)
        found[str(pk)] = (Shown(audience, newest, frozenset({f"delegate-log:{pk}"})),)
    return found


LOGS: Final = Subject(SUBJECT, topics={"delegate-log": at_places(Delegate, VIEW)}, looks=log_looks)
