"""What pages hear of previews that delegates read for, and of approvals whose changes are worked out."""

from collections.abc import Collection
from typing import Final

from deployments.models import Approval, PreviewQuestion
from deployments.previews import LONGEST
from rbac.policy import Place
from web.clock import database_now
from web.news import Audience, Shown, Subject, at_places
from web.news.subjects import keys_of

VIEW: Final = "core_pipeline_view"


def preview_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """How far these previews are, or all that are not finished; two queries."""
    wanted = {"finished_at": None} if keys is None else {"pk__in": list(keys_of(PreviewQuestion, keys))}
    columns = ("pk", "asked_by_id", "asked_at", "task_id", "finished_at")
    old = database_now() - LONGEST
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, asker, asked_at, *seen in PreviewQuestion.objects.filter(**wanted).values_list(*columns):
        # One that takes too long is begun anew by who asks again.
        looks = (*seen, asked_at < old)
        found[str(pk)] = (Shown(Audience(person_id=asker), looks, frozenset({f"preview:{pk}"})),)
    return found


def _askers(keys: Collection[str]) -> dict[str, Audience]:
    by_key = keys_of(PreviewQuestion, keys)
    rows = PreviewQuestion.objects.filter(pk__in=list(by_key)).values_list("pk", "asked_by_id")
    return {by_key[pk]: Audience(person_id=asker) for pk, asker in rows}


def approval_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """What has become of these approvals, or of all that wait; one query."""
    waiting = {"status": Approval.Status.WAITING}
    wanted = waiting if keys is None else {"pk__in": list(keys_of(Approval, keys))}
    seen = ("status", "checks_made", "checks_asked", "diff", "decided")
    rows = Approval.objects.filter(**wanted).values_list(
        "pk", "execution__scope_id", "execution__pipeline__identifier", *seen
    )
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, scope, pipeline, *looks in rows:
        audience = Audience(Place(scope, {"pipeline": pipeline}), VIEW)
        found[str(pk)] = (Shown(audience, tuple(looks), frozenset({f"approval:{pk}"})),)
    return found


PREVIEWS: Final = Subject("previews", topics={"preview": _askers}, looks=preview_looks)
APPROVALS: Final = Subject("approvals", topics={"approval": at_places(Approval, VIEW)}, looks=approval_looks)
