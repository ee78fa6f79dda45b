"""What pages, the API and sockets list: executions and pipelines, narrowed to what one may see."""

from collections.abc import Sequence

from django.db.models import Prefetch, Q, QuerySet

from deployments.models import Execution, StageExecution
from pipelines.models import Pipeline
from pipelines.queries import visible_pipelines
from rbac.models import Scope, User
from rbac.policy import visible_below

MOST_DIGITS = 9


def visible_executions(principal: User, scope: Scope | None = None) -> QuerySet[Execution]:
    """The executions that a person may see, in one scope or everywhere, with what a list shows."""
    rows = Execution.objects.select_related("pipeline", "scope", "started_by").defer("yaml", "pipeline__yaml")
    stages = StageExecution.objects.order_by("position").only("execution", "position", "values")
    found = visible_below(principal, "core_pipeline_view", rows, scope)
    return found.prefetch_related(Prefetch("stages", queryset=stages))


def searched(executions: QuerySet[Execution], principal: User, text: str) -> QuerySet[Execution]:
    """The executions that `text` names: by a part of their pipeline's name, their number or their tag."""
    text = text.strip()
    if not text:
        return executions
    number = text.removeprefix("#")
    meant = Q(pipeline__in=_pipelines_named(principal, text)) | Q(tag=text)
    if number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS:
        meant |= Q(number=int(number))
    return executions.filter(meant)


def _pipelines_named(principal: User, text: str) -> list[int]:
    """The pipelines with `text` in their name, compared here: the databases fold letters differently."""
    rows = visible_pipelines(principal).values_list("pk", "name", "identifier")
    wanted = text.casefold()
    return [pk for pk, *names in rows if any(wanted in name.casefold() for name in names)]


def newest_tags(principal: User, pipelines: Sequence[Pipeline], most: int) -> list[str]:
    """The tags that pipelines ran last, each once, newest first."""
    runs = visible_executions(principal).filter(pipeline__in=pipelines).exclude(tag="").exclude(tag=None)
    newest = runs.order_by("-created_at").values_list("tag", flat=True)[: most * 5]
    return list(dict.fromkeys(newest))[:most]
