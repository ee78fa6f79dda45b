"""What pages hear of what they asked through a delegate: that the answer is there, or who gives it."""

from collections.abc import Collection
from typing import Final

from delegates.models import Inquiry
from web.news import Audience, Shown, Subject
from web.news.subjects import keys_of

SUBJECT: Final = "inquiries"


def inquiry_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """How far these inquiries are, or all that are not finished; one query."""
    wanted = {"finished_at": None} if keys is None else {"pk__in": list(keys_of(Inquiry, keys))}
    rows = Inquiry.objects.filter(**wanted).values_list("pk", "asked_by_id", "task_id", "finished_at")
    return {
        str(pk): (Shown(Audience(person_id=asker), (task, finished), frozenset({f"inquiry:{pk}"})),)
        for pk, asker, task, finished in rows
    }


def _askers(keys: Collection[str]) -> dict[str, Audience]:
    by_key = keys_of(Inquiry, keys)
    rows = Inquiry.objects.filter(pk__in=list(by_key)).values_list("pk", "asked_by_id")
    return {by_key[pk]: Audience(person_id=asker) for pk, asker in rows}


INQUIRIES: Final = Subject(SUBJECT, topics={"inquiry": _askers}, looks=inquiry_looks)
