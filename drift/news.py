"""What pages hear of adoptions: that an ECS service has been read back."""

from collections.abc import Collection
from typing import Final

from drift.models import Adoption
from drift.queries import VIEW
from rbac.policy import Place
from web.news import Audience, Shown, Subject, at_places, changed
from web.news.subjects import keys_of

SUBJECT: Final = "adoptions"


def adoption_changed(adoption: int) -> None:
    """After the commit under way, have pages of this adoption look; by its key."""
    changed(SUBJECT, adoption)


def adoption_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """How far these adoptions are, or all that are being read; one query."""
    rows = Adoption.objects.filter(state=Adoption.State.READING)
    if keys is not None:
        rows = Adoption.objects.filter(pk__in=list(keys_of(Adoption, keys)))
    environment = "infrastructure__environment"
    columns = ("pk", f"{environment}__scope_id", f"{environment}__identifier", "state", "asked_at", "read_at")
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, scope, identifier, *seen in rows.values_list(*columns):
        audience = Audience(Place(scope, {"environment": identifier}), VIEW)
        found[str(pk)] = (Shown(audience, tuple(seen), frozenset({f"adoption:{pk}"})),)
    return found


ADOPTIONS: Final = Subject(SUBJECT, topics={"adoption": at_places(Adoption, VIEW)}, looks=adoption_looks)
