"""What pipelines mean for the file store: whose steps bring a manifest that is this file."""

from django.db.models import QuerySet
from django.urls import reverse

from connectors.models import FileNode
from connectors.uses import Thing, Use, Uses, uses
from deployments.manifest_files import is_touched
from deployments.models import Pipeline
from deployments.pipelines import BadPipelineError, read_pipeline
from deployments.step_sources import files_of
from rbac.policy import Principal, at_or_below, visible_to

# Reading a pipeline takes milliseconds; a page does not read more of them than this.
MOST_READ = 200


@uses
def pipelines_with(thing: Thing, principal: Principal) -> Uses:
    """The pipelines with a step that runs this file, or what lies in this folder."""
    if not isinstance(thing, FileNode):
        return Uses()
    found = [one.pk for one in _near(thing)[:MOST_READ] if _names(one, thing)]
    pipelines = Pipeline.objects.filter(pk__in=found).select_related("scope")
    seen = visible_to(principal, "core_pipeline_view", pipelines).order_by("scope__path", "identifier")
    shown = tuple(Use(f"pipeline {one.name}", reverse("pipeline", args=[one.pk])) for one in seen)
    return Uses(shown, hidden=len(found) - len(shown))


def _near(node: FileNode) -> "QuerySet[Pipeline]":
    """The pipelines that may refer to it: at its scope or below, with the first folder of its path."""
    begin = "/" + node.path.split("/")[1]
    rows = Pipeline.objects.filter(at_or_below(node.scope, "scope"), yaml__contains=begin)
    return rows.select_related("scope").order_by("scope__path", "identifier")


def _names(pipeline: Pipeline, node: FileNode) -> bool:
    try:
        stages = read_pipeline(pipeline.yaml).stages
    except BadPipelineError:
        return False
    steps = (step for stage in stages for step in (*stage.steps, *stage.rollback_steps))
    refs = (ref for step in steps for ref in files_of(step.type, step.spec))
    return any(is_touched(ref, pipeline.scope, node) for ref in refs)
