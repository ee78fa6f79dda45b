"""Proposals of strategy changes: both texts before and after, what follows in AWS, and what is missing."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from catalog.manifests.checks import check_manifest
from catalog.manifests.documents import BadDocument, parse_manifest
from catalog.manifests.kinds import SERVICE_DEFINITION
from catalog.manifests.yaml_drafts import NotEditable
from inventory.strategy_changes.consequences import describe_changes, describe_losses
from inventory.strategy_changes.definitions import change_definition, change_pipeline, choose_template
from inventory.strategy_changes.obstacles import list_setting_obstacles
from inventory.strategy_changes.readings import RuleChoice, ServiceReading
from inventory.strategy_changes.sources import DefinitionSource, find_definition_source
from inventory.strategy_changes.strategies import (
    CLASSIC,
    StrategySettings,
    get_written_strategy,
)
from pipelines.definition.parser import parse_pipeline
from pipelines.definition.stage_targets import StageTarget, find_stage_targets
from pipelines.deployability import BLUE_GREEN_STEP, list_deploying_stages
from pipelines.editor.tree_paths import TreePath, parse_path
from pipelines.models import Pipeline
from rbac.policy import Principal
from steps.expressions import has_expression
from web.http.problems import BadInput, Conflict
from web.text_diffs import TextDiff, compare_texts


@dataclass(frozen=True)
class ChangeableStage:
    """A stage of a pipeline, with the text of its service definition."""

    pipeline: Pipeline
    target: StageTarget
    source: DefinitionSource

    @property
    def path(self) -> TreePath:
        """Return the path of the stage in the pipeline."""
        return parse_path(self.target.path)[:3]

    @cached_property
    def definition(self) -> Mapping[str, Any]:
        """Return the service definition; empty for a text that is none."""
        try:
            value = parse_manifest(self.source.text, self.source.title).value
        except BadDocument:
            return {}
        return value if isinstance(value, Mapping) else {}

    @property
    def service_name(self) -> str:
        """Return the serviceName of the definition."""
        return str(self.definition.get("serviceName") or "")

    @property
    def strategy(self) -> str:
        """Return the strategy that the pipeline deploys with."""
        return get_written_strategy(self.definition, [step.type for step in self.target.spec.steps])

    def find_listed_production(self, reading: ServiceReading) -> RuleChoice | None:
        """Return the production rule that a blue/green step of the stage names."""
        for step in self.target.spec.steps:
            if step.type == BLUE_GREEN_STEP:
                listener, rule = (
                    str(step.spec.get(name) or "") for name in ("prodListener", "prodListenerRuleArn")
                )
                return reading.find_listener_rule(listener, rule)
        return None


def list_stage_targets(pipeline: Pipeline) -> list[StageTarget]:
    """Return the stages of a pipeline that deploy a service, if it and the infrastructure exist."""
    deploying = {stage.identifier for stage in list_deploying_stages(pipeline.yaml)}
    targets, _ = find_stage_targets(parse_pipeline(pipeline.yaml), pipeline.scope)
    return [target for target in targets if target.spec.identifier in deploying]


def find_changeable_stage(pipeline: Pipeline, identifier: str, reader: Principal) -> ChangeableStage:
    """Return a stage, the first one without an identifier.

    Raises `BadInput` if there is no such stage, `Conflict` if its strategy cannot be changed here.
    """
    targets = list_stage_targets(pipeline)
    target = next((row for row in targets if identifier in ("", row.spec.identifier)), None)
    if target is None:
        message = (
            f"no stage {identifier} of this pipeline deploys a service"
            if identifier
            else "deploys no service"
        )
        raise BadInput("There is no such stage.", errors=[{"path": "stage", "message": message}])
    if target.infrastructure.is_dynamic:
        raise Conflict(
            "Each run provisions the infrastructure of this stage, so no running service can be read. "
            "Change the "
            "strategy in the pipeline and in the service definition."
        )
    stage = ChangeableStage(pipeline, target, find_definition_source(target, reader))
    if not stage.service_name or has_expression(stage.service_name):
        raise Conflict(
            "The service definition has no fixed serviceName. Change the strategy in the pipeline and in the "
            "service definition."
        )
    return stage


@dataclass(frozen=True)
class StrategyChange:
    """Both texts before and after a change, and what it means; with `obstacles` it cannot be made."""

    stage: ChangeableStage
    settings: StrategySettings
    definition: str
    pipeline: str
    changes: tuple[str, ...]
    losses: tuple[str, ...]
    obstacles: tuple[str, ...]

    @property
    def definition_diff(self) -> TextDiff:
        return compare_texts(self.stage.source.text, self.definition)

    @property
    def pipeline_diff(self) -> TextDiff:
        return compare_texts(self.stage.pipeline.yaml, self.pipeline)

    @property
    def digest(self) -> str:
        """Return a hash of all texts, by which the confirmation finds that the review is outdated."""
        before = (self.stage.pipeline.yaml, self.stage.source.text)
        parts = [*before, self.pipeline, self.definition, *self.changes, *self.losses]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def build_change(
    stage: ChangeableStage,
    reading: ServiceReading,
    settings: StrategySettings,
    known_obstacles: Sequence[str] = (),
) -> StrategyChange:
    """Build the change of a stage to a strategy; `known_obstacles` are those of any settings."""
    obstacles = [*known_obstacles, *list_setting_obstacles(reading, settings)]
    definition, pipeline = stage.source.text, stage.pipeline.yaml
    try:
        definition = change_definition(definition, settings)
        template = choose_template(settings.strategy, reading.strategy)
        pipeline = change_pipeline(pipeline, stage.path, settings, template=template)
    except NotEditable as refused:
        obstacles.append(str(refused))
    else:
        obstacles += _list_definition_problems(definition, stage.source.title)
    if not obstacles and (definition, pipeline) == (stage.source.text, stage.pipeline.yaml):
        obstacles.append(
            "Nothing changes: the pipeline deploys with this strategy and these settings already."
        )
    return StrategyChange(
        stage,
        settings,
        definition,
        pipeline,
        tuple(describe_changes(reading, settings, definition)),
        tuple(describe_losses(reading, settings, stage.source.text)),
        tuple(dict.fromkeys(obstacles)),
    )


def _list_definition_problems(text: str, name: str) -> Iterator[str]:
    try:
        document = parse_manifest(text, name)
    except BadDocument as error:
        yield str(error)
        return
    yield from (f"{row.path}: {row.message}" for row in check_manifest(SERVICE_DEFINITION, document).problems)


def find_target_group(stage: ChangeableStage, reading: ServiceReading) -> str:
    """Return the target group with the production traffic; "" if that is not one group."""
    groups = reading.live_groups
    if reading.strategy == CLASSIC and (rule := stage.find_listed_production(reading)):
        groups = rule.groups
    elif rule := reading.find_production():
        groups = [group for group in groups if group in rule.groups]
    return groups[0] if len(groups) == 1 else ""
