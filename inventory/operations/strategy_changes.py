"""Operations that review and make a change of the strategy by which a stage deploys its service."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db import transaction

from catalog.models import Service
from catalog.operations import read_service_spec, update_service
from connectors.operations.files import save_file
from delegates.models import LookupRequest
from inventory.strategy_changes.obstacles import list_service_obstacles
from inventory.strategy_changes.proposals import (
    ChangeableStage,
    StrategyChange,
    build_change,
    find_changeable_stage,
    find_target_group,
)
from inventory.strategy_changes.readings import RuleChoice, ServiceReading, read_service
from inventory.strategy_changes.sources import DefinitionSource, list_other_stages, list_other_usages
from inventory.strategy_changes.strategies import (
    CLASSIC,
    RuleReference,
    StrategySettings,
    describe_strategy_name,
)
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from steps.actions.ecs_service.snapshots import get_controller
from web.http.problems import Conflict
from web.managed_resources import find_management

EDIT_PIPELINE = "core_pipeline_edit"


class ReadingPending(Conflict):
    """Error raised while a delegate reads the ECS service."""

    code = "reading_pending"

    def __init__(self, lookup: LookupRequest) -> None:
        super().__init__("A delegate reads the ECS service. Try again in a moment.")
        self.lookup = lookup


@dataclass(frozen=True)
class StrategyChoice:
    """What a person chooses; `production` and `test` are ARNs of listener rules."""

    strategy: str
    stage: str = ""
    production: str = ""
    test: str = ""
    alternate_group: str = ""
    role: str = ""
    percent: float = 10.0
    step_minutes: int = 5
    bake_minutes: int = 5


@dataclass(frozen=True)
class ReadStage:
    """A stage with its ECS service as it runs."""

    stage: ChangeableStage
    reading: ServiceReading


def read_stage(*, actor: User, pipeline: Pipeline, stage: str = "", is_repeated: bool = False) -> ReadStage:
    """Read the ECS service of a stage; `is_repeated` for a form that shows an earlier reading.

    Raises `ReadingPending` while a delegate reads it, `ConnectorUnavailable`, `Conflict` and `MissingAccess`.
    """
    require(actor, EDIT_PIPELINE, pipeline)
    found = find_changeable_stage(pipeline, stage, actor)
    reading = read_service(
        actor=actor,
        infrastructure=found.target.infrastructure,
        name=found.service_name,
        is_repeated=is_repeated,
    )
    if isinstance(reading, LookupRequest):
        raise ReadingPending(reading)
    return ReadStage(found, reading)


def preview_strategy_change(*, actor: User, pipeline: Pipeline, choice: StrategyChoice) -> StrategyChange:
    """Return a change after making it on trial: nothing stays.

    Raises what `change_strategy` raises for the same choice.
    """
    change = _build_change(actor, pipeline, choice)
    if not change.obstacles:
        with transaction.atomic():
            _save(actor, change)
            transaction.set_rollback(True)
    return change


def change_strategy(*, actor: User, pipeline: Pipeline, choice: StrategyChoice, digest: str) -> Pipeline:
    """Save service definition and pipeline for another strategy, both or neither; AWS is only read.

    `digest` is that of the preview. Raises `Conflict` if something has changed since, or for an obstacle, and
    what saving the pipeline, the service or the file raises.
    """
    change = _build_change(actor, pipeline, choice)
    if change.obstacles:
        raise Conflict(change.obstacles[0])
    if change.digest != digest:
        raise Conflict("The service or its pipeline has changed since the review. Review the change again.")
    with transaction.atomic():
        return _save(actor, change)


def _build_change(actor: User, pipeline: Pipeline, choice: StrategyChoice) -> StrategyChange:
    read = read_stage(actor=actor, pipeline=pipeline, stage=choice.stage, is_repeated=True)
    settings = _build_settings(read, choice)
    return build_change(
        read.stage, read.reading, settings, _list_known_obstacles(actor, read, choice.strategy)
    )


def _build_settings(read: ReadStage, choice: StrategyChoice) -> StrategySettings:
    production, test = read.reading.get_rule(choice.production), read.reading.get_rule(choice.test)
    return StrategySettings(
        strategy=choice.strategy,
        target_group=find_target_group(read.stage, read.reading),
        alternate_group=choice.alternate_group,
        production=_get_reference(production),
        test=_get_reference(test),
        role=choice.role,
        percent=float(choice.percent),
        step_minutes=choice.step_minutes,
        bake_minutes=choice.bake_minutes,
        controller=get_controller(read.reading.service),
        service=read.reading.service.get("serviceName", ""),
    )


def _list_known_obstacles(actor: User, read: ReadStage, strategy: str) -> list[str]:
    return [*list_service_obstacles(read.reading, strategy), *_list_owner_obstacles(actor, read.stage)]


def _list_owner_obstacles(actor: User, stage: ChangeableStage) -> Iterator[str]:
    for resource in (stage.pipeline, stage.target.service):
        if management := find_management(resource):
            yield f"{management} The differences below show what to change."
    if others := list_other_stages(stage.target, stage.pipeline, actor):
        yield (
            f"The same service definition is deployed by {', '.join(others)}. Give each environment an "
            "override "
            "of the service definition, and change the strategy there."
        )
    file, service = stage.source.file, stage.target.service
    if file and (usages := list_other_usages(file, service, actor)):
        yield (
            f"The file {file.path} is used by {usages} too. Give service "
            f"{service.identifier} a file of its own to change its strategy."
        )


def _save(actor: User, change: StrategyChange) -> Pipeline:
    """Save both texts; a pipeline that leaves blue/green is saved first, because it refuses other "
    "definitions."""
    stage = change.stage
    if stage.strategy == CLASSIC:
        pipeline = _save_pipeline(actor, change)
        _save_definition(actor, change)
    else:
        _save_definition(actor, change)
        pipeline = _save_pipeline(actor, change)
    after = {
        "stage": stage.target.spec.identifier,
        "strategy": change.settings.strategy,
        "definition": stage.source.title,
    }
    record_audit_entry(
        actor=actor,
        action="pipeline.change_strategy",
        thing=pipeline,
        before={"strategy": stage.strategy},
        after=after,
    )
    return pipeline


def _save_pipeline(actor: User, change: StrategyChange) -> Pipeline:
    pipeline = change.stage.pipeline
    if change.pipeline == pipeline.yaml:
        return pipeline
    return save_pipeline(
        actor=actor,
        scope=pipeline.scope,
        yaml=change.pipeline,
        pipeline=Pipeline.objects.select_related("scope").get(pk=pipeline.pk),
        version=pipeline.version,
    )


def _save_definition(actor: User, change: StrategyChange) -> None:
    source = change.stage.source
    if change.definition == source.text:
        return
    if source.file is None:
        _save_inline(actor, source, change.definition)
        return
    save_file(
        actor=actor,
        scope=source.file.scope,
        path=source.file.path,
        content=change.definition,
        expected_version=source.file.version,
        note=f"Strategy changed to {describe_strategy_name(change.settings.strategy)}",
    )


def _save_inline(actor: User, source: DefinitionSource, text: str) -> None:
    service = Service.objects.select_related("scope").get(pk=source.service.pk)
    spec = read_service_spec(service)
    manifests = [
        replace(manifest, content=text) if manifest.identifier == source.manifest else manifest
        for manifest in spec.manifests
    ]
    update_service(
        actor=actor, service=service, spec=replace(spec, manifests=manifests), version=source.service.version
    )


def _get_reference(rule: RuleChoice | None) -> RuleReference | None:
    return rule.reference if rule else None
