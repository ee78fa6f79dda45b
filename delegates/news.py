"""What pages hear of delegates that are not about delegates: that one came, went or is late."""

from collections.abc import Collection
from typing import Final

from django.utils import timezone

from delegates.models import Delegate
from delegates.queries.connectivities import connectivity_at
from delegates.queries.delegates import VIEW
from delegates.telling import SUBJECT
from rbac.policy import Place
from web.news import Audience, Shown, Subject, in_scopes
from web.news.subjects import keys_of


def delegate_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """Which of these delegates are connected, or of all; one query."""
    wanted = (
        Delegate.objects.all() if keys is None else Delegate.objects.filter(pk__in=keys_of(Delegate, keys))
    )
    rows = wanted.annotate(connectivity=connectivity_at(timezone.now()))
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, scope, name, connectivity in rows.values_list("pk", "scope_id", "name", "connectivity"):
        # Who is below sees it too: it serves them.
        topics = frozenset({f"delegates-at:{scope}"})
        audience = Audience(Place(scope, {"delegate": name}), VIEW)
        found[str(pk)] = (Shown(audience, (name, connectivity), topics, listed_as="delegates"),)
    return found


# A heartbeat that does not come is told by nobody.
DELEGATES: Final = Subject(
    SUBJECT,
    topics={"delegates": in_scopes, "delegates-at": in_scopes},
    looks=delegate_looks,
    look_every_seconds=15,
)
