"""The badge of drift: how many ECS services somebody changed outside, of those that a person may see."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from django.db.models import Count, Min

from inventory.drift.queries import VIEW
from inventory.models.drift import Comparison
from rbac.models import User
from rbac.policy import Grants, places_of

BADGE: Final = "drift"


def drifted_counts(people: Sequence[User]) -> Counter[int]:
    """How many there are for each of these; asks the database as often for many as for one.

    Each is somebody who came without an API key.
    """
    drifted = Comparison.objects.filter(seen__gone_at=None, state=Comparison.State.DRIFTED)
    # All of an environment are seen by the same people.
    grouped = drifted.order_by().values("seen__infrastructure__environment")
    rows = list(grouped.annotate(many=Count("pk"), one=Min("pk")).values_list("one", "many"))
    if not rows:
        return Counter()
    grants, places = Grants(people), places_of(Comparison, {one for one, _ in rows})
    found: Counter[int] = Counter()
    for person in people:
        for one, many in rows:
            if one in places and VIEW in grants.permissions_at(person, places[one]):
                found[person.pk] += many
    return found
