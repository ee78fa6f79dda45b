"""Stored pipelines as documents of policy rules, for the test bench."""

from typing import Final

from django.core.exceptions import ValidationError

from pipelines.definition.policy_checks import build_pipeline_document
from pipelines.definition.stage_targets import StageTarget, find_stage_targets
from pipelines.operations.pipelines import parse_valid_pipeline
from pipelines.queries import list_visible_pipelines
from policies.document_sources import NamedDocument
from rbac.models import Scope, User
from rbac.policy import NotVisible, can

MOST_CHOICES: Final = 100


def load_pipeline_documents(actor: User, resource: str) -> list[NamedDocument]:
    """Return the document of a pipeline by its id, without the stages whose target the actor cannot view.

    Raises `NotVisible`, and `PipelineNotRunnable` for an invalid pipeline.
    """
    try:
        pipeline = list_visible_pipelines(actor).filter(pk=resource).first()
    except (ValueError, ValidationError, OverflowError):
        pipeline = None
    if pipeline is None:
        raise NotVisible("This pipeline does not exist, or you cannot view it.")
    spec = parse_valid_pipeline(pipeline.yaml)
    targets, _ = find_stage_targets(spec, pipeline.scope)
    visible = [target for target in targets if _is_visible(actor, target)]
    return [NamedDocument(pipeline.name, build_pipeline_document(spec, visible, pipeline.scope))]


def list_pipeline_choices(actor: User, scope: Scope) -> list[tuple[str, str]]:
    """Return ids and names of the visible pipelines of a scope and those below."""
    rows = list_visible_pipelines(actor, scope).only("pk", "name", "scope").order_by("name", "pk")
    return [(str(pipeline.pk), pipeline.name) for pipeline in rows[:MOST_CHOICES]]


def _is_visible(actor: User, target: StageTarget) -> bool:
    return can(actor, "core_service_view", target.service) and can(
        actor, "core_environment_view", target.environment
    )
