"""Pipelines that a person may see."""

from django.db.models import QuerySet

from pipelines.models import Pipeline
from rbac.models import Scope, User
from rbac.policy import at_or_below, visible_to


def visible_pipelines(principal: User, scope: Scope | None = None) -> QuerySet[Pipeline]:
    """The pipelines that a person may see, in one scope or everywhere."""
    found = visible_to(principal, "core_pipeline_view", Pipeline.objects.select_related("scope"))
    return found if scope is None else found.filter(at_or_below(scope))
