"""Parser that turns the YAML of a pipeline into stages, groups and steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

import steps.kinds
import steps.strategies  # noqa: F401 - registers every strategy
from catalog.manifests.documents import BadDocument, Document, parse_document
from guards.limits import NAME_CHARACTERS
from pipelines.definition.checks import (
    PipelineProblem,
    build_problem,
    find_problems,
    list_nested_steps,
    list_provisioner_steps,
)
from pipelines.definition.nesting import DocumentPath, NestedStep, NestedSteps
from pipelines.definition.schema import PIPELINE_SCHEMA
from pipelines.definition.schema_messages import describe_violation, list_unknown_keys
from pipelines.inputs.variables import PipelineVariable, parse_variables
from steps.failure_strategies import parse_duration, parse_failure_strategies
from steps.kinds.registry import Unit, get_step_kind

# After what a step runs that says nothing: forward after success, and a rollback whatever was before it.
AFTER_SUCCESS, ALWAYS = "Success", "All"
_VALIDATOR = Draft202012Validator(PIPELINE_SCHEMA)


class InvalidPipelineError(ValueError):
    """The YAML is not a pipeline that can run."""

    def __init__(self, problems: list[PipelineProblem]) -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems))
        self.problems = problems


@dataclass(frozen=True)
class StepSpec:
    """One step as the pipeline asks for it."""

    identifier: str
    name: str
    type: str
    spec: dict[str, Any]
    timeout_seconds: int
    selectors: tuple[str, ...] = ()
    selectors_from: str = ""
    failure_strategies: tuple[dict[str, Any], ...] = ()
    when: dict[str, Any] | None = None
    group: int | None = None
    """The group around it, as an index among those of the stage."""
    path: DocumentPath = ()
    """Where it stands, below the stage's spec."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """The plan of this step, which depends on its spec alone."""
        return get_step_kind(self.type).units(self.spec)


@dataclass(frozen=True)
class GroupSpec:
    """A step group or a parallel; `position` is that of its first step, `parent` an index like `group`."""

    kind: str
    identifier: str
    name: str
    parent: int | None
    position: int
    when: dict[str, Any] | None = None


@dataclass(frozen=True)
class StageSpec:
    """One stage: which service goes where, by which steps."""

    identifier: str
    name: str
    service: str
    environment: str
    infrastructure: str
    steps: tuple[StepSpec, ...]
    rollback_steps: tuple[StepSpec, ...]
    groups: tuple[GroupSpec, ...] = ()
    rollback_groups: tuple[GroupSpec, ...] = ()
    when: dict[str, Any] | None = None
    provisioner_step_count: int = 0
    """How many of the first steps belong to the provisioner (R185)."""


@dataclass(frozen=True)
class PipelineSpec:
    """A pipeline that can run."""

    identifier: str
    name: str
    variables: tuple[PipelineVariable, ...]
    stages: tuple[StageSpec, ...]


def parse_pipeline(text: str, name: str = "pipeline") -> PipelineSpec:
    """Read a pipeline's YAML.

    Raises `InvalidPipelineError` with every problem found, each with its path and line.
    """
    try:
        document = parse_document(text, name)
    except BadDocument as bad:
        raise InvalidPipelineError([PipelineProblem("", bad.message, bad.line, bad.column)]) from bad
    if errors := list(_VALIDATOR.iter_errors(document.value)):
        raise InvalidPipelineError([_build_schema_problem(error, document) for error in errors[:50]])
    value = document.value["pipeline"]
    problems = list(find_problems(value, document))
    if problems:
        raise InvalidPipelineError(problems)
    return PipelineSpec(
        identifier=value["identifier"],
        name=value["name"],
        variables=parse_variables(value.get("variables", {})),
        stages=tuple(
            _build_stage(item["stage"], _get_delegate_selectors(value, "PIPELINE"))
            for item in value["stages"]
        ),
    )


@dataclass(frozen=True)
class _DelegateSelectors:
    """The tags that delegates must have, and where the pipeline says so: the innermost place counts."""

    selectors: tuple[str, ...] = ()
    place: str = ""


def _get_delegate_selectors(
    value: Mapping[str, Any], place: str, around: _DelegateSelectors | None = None
) -> _DelegateSelectors:
    selectors = tuple(value.get("delegateSelectors", ()))
    return _DelegateSelectors(selectors, place) if selectors else around or _DelegateSelectors()


def _build_stage(stage: Mapping[str, Any], around: _DelegateSelectors) -> StageSpec:
    spec = stage["spec"]
    asked = _get_delegate_selectors(stage, "STAGE", around)
    forward, back = list_nested_steps(spec)
    around_failure = stage.get("failureStrategies", ())
    return StageSpec(
        identifier=stage["identifier"],
        name=stage.get("name", stage["identifier"]),
        service=spec["service"]["serviceRef"],
        environment=spec["environment"]["environmentRef"],
        infrastructure=spec["environment"]["infrastructureDefinitions"][0]["identifier"],
        steps=tuple(_build_step(leaf, forward, asked, around_failure) for leaf in forward.steps),
        rollback_steps=tuple(_build_step(leaf, back, asked, (), after=ALWAYS) for leaf in back.steps),
        groups=_build_groups(forward),
        rollback_groups=_build_groups(back, after=ALWAYS),
        when=_build_condition([stage.get("when", {})], "pipelineStatus"),
        provisioner_step_count=len(list_provisioner_steps(spec)[0].steps),
    )


def _build_groups(nested: NestedSteps, *, after: str = AFTER_SUCCESS) -> tuple[GroupSpec, ...]:
    found: list[GroupSpec] = []
    for one in nested.groups:
        parent = None if one.parent is None else found[one.parent]
        around = [] if parent is None or parent.when is None else [{**parent.when, "condition": None}]
        found.append(
            GroupSpec(
                kind=one.kind,
                identifier=one.identifier,
                name=str(one.body.get("name", one.identifier)),
                parent=one.parent,
                position=one.position,
                when=_build_condition([one.body.get("when", {}), *around], "stageStatus", after),
            )
        )
    return tuple(found)


def _build_condition(
    said: Sequence[Mapping[str, Any]], status: str, otherwise: str = AFTER_SUCCESS
) -> dict[str, Any] | None:
    """When it runs: after what the innermost place says, under its own condition; None: as by itself."""
    after = next((one[status] for one in said if status in one), otherwise)
    condition = said[0].get("condition")
    if after == otherwise and condition is None:
        return None
    # YAML has true and false of its own.
    text = str(condition).lower() if isinstance(condition, bool) else condition
    return {status: after, "condition": text}


def _build_step(
    leaf: NestedStep,
    nested: NestedSteps,
    around: _DelegateSelectors,
    around_failure: Sequence[Mapping[str, Any]],
    *,
    after: str = AFTER_SUCCESS,
) -> StepSpec:
    step = leaf.step
    kind = get_step_kind(step["type"])
    groups = nested.list_group_bodies(leaf)
    for group in reversed(groups):
        around = _get_delegate_selectors(group, "STEP GROUP", around)
    asked = _get_delegate_selectors(step, "STEP", around)
    timeout = step.get("timeout", f"{kind.timeout_minutes}m")
    strategies = [one for said in (step, *groups) for one in said.get("failureStrategies", ())]
    return StepSpec(
        identifier=step["identifier"],
        name=step["name"] if "name" in step else _build_default_name(leaf, nested, kind.title),
        type=kind.type,
        spec=dict(step.get("spec", {})),
        timeout_seconds=parse_duration(timeout),
        selectors=asked.selectors,
        selectors_from=asked.place,
        failure_strategies=parse_failure_strategies([*strategies, *around_failure]),
        when=_build_condition([one.get("when", {}) for one in (step, *groups)], "stageStatus", after),
        group=leaf.groups[-1] if leaf.groups else None,
        path=leaf.path,
    )


def _build_default_name(leaf: NestedStep, nested: NestedSteps, title: str) -> str:
    """What a step without a name is called: its kind, told apart from others that are called the same."""
    usual = (
        one.step.get("name", title if one.step["type"] == leaf.step["type"] else "") for one in nested.steps
    )
    is_alone = sum(name == title for name in usual) < 2
    return title if is_alone else f"{title} ({leaf.identifier})"[:NAME_CHARACTERS]


def _build_schema_problem(error: ValidationError, document: Document) -> PipelineProblem:
    return build_problem(_get_error_path(error), describe_violation(error), document)


def _get_error_path(error: ValidationError) -> DocumentPath:
    """Where it is written: at the key that does not belong there, else at what is wrong."""
    return (*error.absolute_path, *list_unknown_keys(error)[:1])
