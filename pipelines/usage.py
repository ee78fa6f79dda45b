"""What uses a thing: the services, overrides and pipelines that somebody may see, the rest counted."""

from collections.abc import Callable, Iterator

from django.urls import reverse

from connectors.uses import Use, Uses
from pipelines.definition.parser import BadPipelineError, StepSpec, read_pipeline
from pipelines.models import Pipeline
from rbac.models import Scope
from rbac.policy import Principal, at_or_below, visible_to

# Reading a pipeline takes milliseconds; a page does not read more of them than this.
MOST_READ = 200


def by_pipelines(
    scope: Scope, text: str, uses: Callable[[Scope, Iterator[StepSpec]], bool], principal: Principal
) -> Uses:
    """The pipelines at a scope or below whose steps use a thing; only those with `text` in them are read."""
    near = Pipeline.objects.filter(at_or_below(scope, "scope"), yaml__contains=text)
    read = near.select_related("scope").order_by("scope__path", "identifier")[:MOST_READ]
    found = [one.pk for one in read if uses(one.scope, _steps_of(one))]
    pipelines = Pipeline.objects.filter(pk__in=found).select_related("scope")
    seen = visible_to(principal, "core_pipeline_view", pipelines).order_by("scope__path", "identifier")
    shown = tuple(Use(f"pipeline {one.name}", reverse("pipeline", args=[one.pk])) for one in seen)
    return Uses(shown, hidden=len(found) - len(shown))


def _steps_of(pipeline: Pipeline) -> Iterator[StepSpec]:
    """The steps of a pipeline, those of rollbacks too; none where it cannot be read."""
    try:
        stages = read_pipeline(pipeline.yaml).stages
    except BadPipelineError:
        return
    for stage in stages:
        yield from (*stage.steps, *stage.rollback_steps)
