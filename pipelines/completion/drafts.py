"""Static completion of expressions in a pipeline draft that may be half written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.manifests.documents import BadDocument, Document, parse_document
from catalog.models import Environment, Infrastructure, Service
from catalog.overrides.override_sets import load_override_set
from pipelines.completion.items import (
    AFTER_LAST_STEP,
    CompletionItem,
    CompletionState,
    StepChoice,
    describe_source,
    format_step_title,
    mask_item,
)
from pipelines.definition.stage_targets import find_nearest_resource, find_service
from pipelines.editor.tree_paths import (
    STAGES_PATH,
    TreePath,
    get_body,
    get_children,
    get_execution_path,
    get_kind,
    get_provisioner_path,
    list_execution_items,
    list_provisioner_items,
)
from pipelines.models import Pipeline
from rbac.models import Scope
from rbac.policy import NotVisible, Principal, can
from steps.expression_names import DIGEST, FIXED
from steps.kinds.outputs import list_outputs, list_provisioner_types
from steps.kinds.registry import get_step_kinds
from steps.strategies.registry import get_strategies

SECRET_TYPE = "Secret"  # noqa: S105 - a type of variable


@dataclass(frozen=True)
class DraftNode:
    """A stage, group or step of a draft, with its surrounding groups and branches."""

    body: Mapping[str, Any]
    kind: str
    path: TreePath
    stage: int
    ancestors: tuple[tuple[TreePath, bool, int], ...] = ()

    @property
    def identifier(self) -> str:
        return str(self.body.get("identifier") or "")

    @property
    def title(self) -> str:
        """Return the display name."""
        return format_step_title(str(self.body.get("name") or ""), self.identifier)

    @property
    def is_forward(self) -> bool:
        """Return whether it is a step of the execution section."""
        return self.kind == "step" and "rollbackSteps" not in self.path

    @property
    def type(self) -> str:
        return str(self.body.get("type") or "") if self.kind == "step" else ""

    def is_parallel_to(self, other: "DraftNode") -> bool:
        """Return whether two nodes are in different branches of a parallel block."""
        for (group, is_parallel, branch), (other_group, _, other_branch) in zip(
            self.ancestors, other.ancestors, strict=False
        ):
            if group != other_group:
                return False
            if branch != other_branch:
                return is_parallel
        return False


class PipelineDraft:
    """A pipeline text that may be incomplete, parsed leniently."""

    def __init__(self, text: str) -> None:
        self.document = _parse_leniently(text.replace("\r\n", "\n"))
        tree = self.document.value
        pipeline = tree.get("pipeline") if isinstance(tree, dict) else None
        self.pipeline: dict[str, Any] = pipeline if isinstance(pipeline, dict) else {}
        stages = self.pipeline.get("stages")
        self.stages: list[Any] = stages if isinstance(stages, list) else []
        self.nodes = [node for n, stage in enumerate(self.stages) for node in _list_stage_nodes(stage, n)]

    def find_node_at_line(self, line: int) -> DraftNode | None:
        """Return the node of a line (from 1): the last one that starts before it."""
        node = None
        for mark in self.nodes:
            begins = self.document.get_line(mark.path[:-1])
            if begins is not None and begins <= line:
                node = mark
        return node

    def find_node_at_path(self, path: TreePath) -> DraftNode | None:
        """Return the node at a path, or around it."""
        leading = [mark for mark in self.nodes if mark.path[:-1] == path[: len(mark.path) - 1]]
        return max(leading, key=lambda mark: len(mark.path), default=None)

    def list_choices(self) -> list[StepChoice]:
        """Return the positions that a user can select: each step, the end of each stage, rollback steps."""
        choices: list[StepChoice] = []
        for number, stage in enumerate(self.stages):
            body = get_body(stage)
            before, title = str(body.get("identifier") or ""), str(body.get("name") or body.get("identifier"))
            steps = [
                (node.is_forward, StepChoice(f"{before}/{node.identifier}", node.title, title))
                for node in self.nodes
                if node.stage == number and node.kind == "step" and node.identifier
            ]
            choices += [choice for is_forward, choice in steps if is_forward]
            choices.append(StepChoice(f"{before}/", AFTER_LAST_STEP, title))
            choices += [choice.as_rollback_choice() for is_forward, choice in steps if not is_forward]
        return choices

    def find_node(self, key: str) -> tuple[DraftNode, bool]:
        """Return the node of STAGE/STEP, and whether the key means the end of the stage.

        Raises `NotVisible`.
        """
        stage, _, step = key.partition("/")
        for mark in self.nodes:
            if mark.kind == "stage" and mark.identifier == stage and not step:
                return mark, True
            if mark.kind == "step" and mark.identifier == step and self._get_stage_identifier(mark) == stage:
                return mark, False
        raise NotVisible("This pipeline does not have this step.")

    def _get_stage_identifier(self, mark: DraftNode) -> str:
        return str(get_body(self.stages[mark.stage]).get("identifier") or "")

    def list_items(self, mark: DraftNode | None, *, is_behind: bool = False) -> list[CompletionItem]:
        """Return the available expressions, except those of service and target."""
        items = [
            CompletionItem(path, describe_source(path, {}), about)
            for path, about in {**FIXED, **DIGEST}.items()
        ]
        items += self._list_variables()
        if mark is not None:
            items += self._list_outputs(mark, is_behind=is_behind)
            kind = get_step_kinds().get(mark.type)
            if kind is not None and not is_behind:
                items += [
                    CompletionItem(name, "This step, while it runs", about, CompletionState.LATER)
                    for name, about in kind.own_expressions.items()
                ]
        return items

    def _list_variables(self) -> Iterator[CompletionItem]:
        variables = self.pipeline.get("variables")
        for name, definition in variables.items() if isinstance(variables, dict) else ():
            is_secret = isinstance(definition, dict) and definition.get("type") == SECRET_TYPE
            about = definition.get("description", "") if isinstance(definition, dict) else ""
            for path in (f"pipeline.variables.{name}", f"variables.{name}"):
                item = CompletionItem(
                    path, describe_source(path, {}), about if isinstance(about, str) else ""
                )
                yield mask_item(item) if is_secret else item

    def _list_outputs(self, mark: DraftNode, *, is_behind: bool) -> Iterator[CompletionItem]:
        for step in self._list_earlier_steps(mark, is_behind=is_behind):
            if not step.identifier:
                continue
            source = f"Step {step.body.get('name') or step.identifier}"
            for name, about in list_outputs(step.type, step.body.get("spec")).items():
                path = f"execution.steps.{step.identifier}.output.{name}"
                yield CompletionItem(path, source, about, CompletionState.LATER)
                if step.stage == mark.stage and step.type in list_provisioner_types():
                    yield CompletionItem(f"provisioner.{name}", source, about, CompletionState.LATER)

    def _list_earlier_steps(self, mark: DraftNode, *, is_behind: bool) -> list[DraftNode]:
        """Return the steps that have ended at a node; a rollback step follows all steps of its stage."""
        if is_behind or "rollbackSteps" in mark.path:
            return [step for step in self.nodes if step.is_forward and step.stage <= mark.stage]
        before = self.nodes[: self.nodes.index(mark)]
        return [step for step in before if step.is_forward and not step.is_parallel_to(mark)]


def list_draft_items(
    draft: PipelineDraft, mark: DraftNode | None, scope: Scope, person: Principal, *, is_behind: bool = False
) -> list[CompletionItem]:
    """Return the names available at a position of a text, with the variables of the stage's target.

    Services and environments that `person` may not view are left out.
    """
    items = draft.list_items(mark, is_behind=is_behind)
    stage = get_body(draft.stages[mark.stage]) if mark is not None else {}
    spec = stage.get("spec")
    return [*items, *_list_target_items(spec if isinstance(spec, dict) else {}, scope, person)]


def _list_target_items(spec: Mapping[str, Any], scope: Scope, person: Principal) -> Iterator[CompletionItem]:
    service = find_service(scope, _get_reference(spec, "service", "serviceRef"))
    environment = find_nearest_resource(
        Environment, scope, _get_reference(spec, "environment", "environmentRef")
    )
    if service is not None and not can(person, "core_service_view", service):
        service = None
    if environment is not None and not can(person, "core_environment_view", environment):
        environment = None
    service_names = {*service.variables, *service.required_variables} if service else set()
    environment_names = set(environment.variables) if environment else set()
    effective_names = service_names | environment_names
    if service and environment:
        effective_names |= _list_override_variables(service, environment, spec)
    names = {
        "service.variables": service_names,
        "env.variables": environment_names,
        "serviceVariables": effective_names,
        "variables": effective_names,
    }
    for before, variable_names in names.items():
        for name in variable_names:
            yield CompletionItem(f"{before}.{name}", describe_source(f"{before}.{name}", {}))


def _list_override_variables(service: Service, environment: Environment, spec: Mapping[str, Any]) -> set[str]:
    definitions = spec["environment"].get("infrastructureDefinitions")
    first = definitions[0] if isinstance(definitions, list) and definitions else {}
    identifier = str(first.get("identifier") or "") if isinstance(first, dict) else ""
    place = Infrastructure.objects.filter(environment=environment, identifier=identifier).first()
    return {name for level in load_override_set(service, environment, place).values for name in level}


def _get_reference(spec: Mapping[str, Any], section: str, name: str) -> str:
    reference = spec.get(section)
    identifier = reference.get(name) if isinstance(reference, dict) else ""
    return identifier if isinstance(identifier, str) else ""


def _parse_leniently(text: str) -> Document:
    """Parse a text without the line that cannot be parsed, which is often being typed."""
    for _ in range(2):
        try:
            return parse_document(text, "pipeline")
        except BadDocument as bad:
            lines = text.split("\n")
            lines[min(bad.line, len(lines)) - 1] = ""
            text = "\n".join(lines)
    return Document("pipeline", None)


def _list_stage_nodes(stage: Any, number: int) -> Iterator[DraftNode]:
    at: TreePath = (*STAGES_PATH, number)
    body = get_body(stage)
    yield DraftNode(body, "stage", (*at, "stage"), number)
    yield from _list_nodes(
        list_provisioner_items(stage, "steps"), (*get_provisioner_path(at), "steps"), number, ()
    )
    for section in ("steps", "rollbackSteps"):
        items = list_execution_items(stage, section) or _get_strategy_steps(body, section)
        yield from _list_nodes(items, (*get_execution_path(at), section), number, ())
    items = list_provisioner_items(stage, "rollbackSteps")
    yield from _list_nodes(items, (*get_provisioner_path(at), "rollbackSteps"), number, ())


def _get_strategy_steps(body: Mapping[str, Any], section: str) -> list[Any]:
    """Return the default steps of a strategy."""
    spec = body.get("spec")
    strategy = get_strategies().get(str(spec.get("strategy"))) if isinstance(spec, dict) else None
    if strategy is None:
        return []
    filling = strategy()
    return list(filling.steps if section == "steps" else filling.rollback_steps)


def _list_nodes(
    items: list[Any],
    at: TreePath,
    stage: int,
    around: tuple[tuple[TreePath, bool, int], ...],
    *,
    is_parallel: bool = False,
) -> Iterator[DraftNode]:
    for number, item in enumerate(items):
        kind, path = get_kind(item), (*at, number)
        inside = (*around, (at, is_parallel, number))
        if kind in ("step", "stepGroup"):
            yield DraftNode(get_body(item), kind, (*path, kind), stage, inside)
        inner, where = get_children(item, path)
        if inner:
            yield from _list_nodes(inner, where, stage, inside, is_parallel=kind == "parallel")


def list_pipeline_items(pipeline: Pipeline, key: str, person: Principal) -> tuple[str, list[CompletionItem]]:
    """Return the names available at a position of a saved pipeline, and the key of that position.

    The key defaults to the first step. Raises `NotVisible`.
    """
    draft = PipelineDraft(pipeline.yaml)
    choices = draft.list_choices()
    chosen = key or (choices[0].key if choices else "")
    if not chosen:
        return "", list_draft_items(draft, None, pipeline.scope, person)
    mark, is_behind = draft.find_node(chosen)
    return chosen, list_draft_items(draft, mark, pipeline.scope, person, is_behind=is_behind)
