"""What pages hear of adoptions: that an ECS service has been read back."""

from collections.abc import Collection
from typing import Final

from inventory.drift.queries import VIEW
from inventory.models.drift import Adoption
from rbac.policy import Place
from web.news import Audience, Shown, Subject, at_places, changed
from web.news.subjects import keys_of

SUBJECT: Final = "adoptions"


def adoption_changed(adoption: int) -> None:
    """After the commit under way, have pages of this adoption look; by its key."""
    changed(SUBJECT, adoption)


def waiting_changed(cluster: int) -> None:
    """The same for all that are being read in a cluster whose look has failed."""
    waiting = Adoption.objects.filter(seen__cluster=cluster, state=Adoption.State.READING)
    for key in waiting.values_list("pk", flat=True):
        adoption_changed(key)


def adoption_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """How far these adoptions are, or all that are being read; one query."""
    rows = Adoption.objects.filter(state=Adoption.State.READING)
    if keys is not None:
        rows = Adoption.objects.filter(pk__in=list(keys_of(Adoption, keys)))
    environment = "infrastructure__environment"
    # A look that has failed says why on the page.
    failed = "seen__cluster__compared__failed_at"
    columns = (
        "pk", f"{environment}__scope_id", f"{environment}__identifier", "state", "asked_at", "read_at", failed
    )  # fmt: skip
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, scope, identifier, *seen in rows.values_list(*columns):
        audience = Audience(Place(scope, {"environment": identifier}), VIEW)
        found[str(pk)] = (Shown(audience, tuple(seen), frozenset({f"adoption:{pk}"})),)
    return found


ADOPTIONS: Final = Subject(SUBJECT, topics={"adoption": at_places(Adoption, VIEW)}, looks=adoption_looks)
