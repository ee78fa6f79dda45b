"""Parser that turns the YAML of a pipeline into stages, groups and steps."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

import steps.kinds  # noqa: F401 - registers every step kind
import steps.strategies  # noqa: F401 - registers every strategy
from catalog.manifests.documents import BadDocument, Document, parse_document
from guards.limits import NAME_CHARACTERS
from pipelines.definition.checks import (
    PipelineProblem,
    build_problem,
    find_problems,
    find_step_faults,
    list_nested_steps,
    list_provisioner_steps,
)
from pipelines.definition.nesting import DocumentPath, NestedStep, NestedSteps
from pipelines.definition.schema import EARLIER_PATTERNS, PIPELINE_SCHEMA
from pipelines.definition.schema_messages import describe_violation, list_unknown_keys
from pipelines.inputs.variables import PipelineVariable, parse_variables
from steps.failure_strategies import parse_duration, parse_failure_strategies
from steps.kinds.registry import Unit, get_step_kind

# Default conditions: steps run after success, rollback steps always.
AFTER_SUCCESS, ALWAYS = "Success", "All"
# Problems that one check reports.
MOST_PROBLEMS = 50
_VALIDATOR = Draft202012Validator(PIPELINE_SCHEMA)


class InvalidPipelineError(ValueError):
    """A pipeline YAML that cannot run."""

    def __init__(self, problems: list[PipelineProblem]) -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems))
        self.problems = problems


@dataclass(frozen=True)
class StepSpec:
    """A step of a pipeline."""

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
    """Path of the step below the spec of the stage."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """Return the actions of this step, which depend on its spec alone."""
        return get_step_kind(self.type).build_units(self.spec)


@dataclass(frozen=True)
class GroupSpec:
    """A step group or a parallel block; `position` is its first step's, `parent` an index like `group`."""

    kind: str
    identifier: str
    name: str
    parent: int | None
    position: int
    when: dict[str, Any] | None = None


@dataclass(frozen=True)
class StageSpec:
    """A stage: its service, target and steps."""

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
    """A valid pipeline."""

    identifier: str
    name: str
    variables: tuple[PipelineVariable, ...]
    stages: tuple[StageSpec, ...]


def parse_pipeline(text: str, name: str = "pipeline", *, has_run: bool = False) -> PipelineSpec:
    """Parse the YAML of a pipeline.

    YAML that `has_run` is stored with its execution and cannot be corrected, so that rules which are newer
    than such YAML do not apply to it.

    Raises `InvalidPipelineError` with all problems, each with path and line.
    """
    try:
        document = parse_document(text, name)
    except BadDocument as bad:
        raise InvalidPipelineError([PipelineProblem("", bad.message, bad.line, bad.column)]) from bad
    errors = [
        error
        for error in _VALIDATOR.iter_errors(document.value)
        if not (has_run and _was_valid_earlier(error))
    ]
    if errors:
        problems = [_build_schema_problem(error, document) for error in errors[:MOST_PROBLEMS]]
        problems += find_step_faults(document.value, document)
        raise InvalidPipelineError(sorted(problems, key=lambda problem: problem.line or 0)[:MOST_PROBLEMS])
    value = document.value["pipeline"]
    problems = list(islice(find_problems(value, document, has_run=has_run), MOST_PROBLEMS))
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
    """Delegate selectors with their position in the pipeline; the innermost ones apply."""

    selectors: tuple[str, ...] = ()
    place: str = ""


def _get_delegate_selectors(
    value: Mapping[str, Any], place: str, around: _DelegateSelectors | None = None
) -> _DelegateSelectors:
    selectors = tuple(value.get("delegateSelectors", ()))
    return _DelegateSelectors(selectors, place) if selectors else around or _DelegateSelectors()


def _build_stage(stage: Mapping[str, Any], around: _DelegateSelectors) -> StageSpec:
    spec = stage["spec"]
    selectors = _get_delegate_selectors(stage, "STAGE", around)
    forward, back = list_nested_steps(spec)
    names, back_names = _count_names(forward), _count_names(back)
    around_failure = stage.get("failureStrategies", ())
    return StageSpec(
        identifier=stage["identifier"],
        name=stage.get("name", stage["identifier"]),
        service=spec["service"]["serviceRef"],
        environment=spec["environment"]["environmentRef"],
        infrastructure=spec["environment"]["infrastructureDefinitions"][0]["identifier"],
        steps=tuple(_build_step(leaf, forward, selectors, around_failure, names) for leaf in forward.steps),
        rollback_steps=tuple(
            _build_step(leaf, back, selectors, (), back_names, after=ALWAYS) for leaf in back.steps
        ),
        groups=_build_groups(forward),
        rollback_groups=_build_groups(back, after=ALWAYS),
        when=_build_condition([stage.get("when", {})], "pipelineStatus"),
        provisioner_step_count=len(list_provisioner_steps(spec)[0].steps),
    )


def _build_groups(nested: NestedSteps, *, after: str = AFTER_SUCCESS) -> tuple[GroupSpec, ...]:
    groups: list[GroupSpec] = []
    for group in nested.groups:
        parent = None if group.parent is None else groups[group.parent]
        around = [] if parent is None or parent.when is None else [{**parent.when, "condition": None}]
        groups.append(
            GroupSpec(
                kind=group.kind,
                identifier=group.identifier,
                name=str(group.body.get("name", group.identifier)),
                parent=group.parent,
                position=group.position,
                when=_build_condition([group.body.get("when", {}), *around], "stageStatus", after),
            )
        )
    return tuple(groups)


def _build_condition(
    whens: Sequence[Mapping[str, Any]], status: str, otherwise: str = AFTER_SUCCESS
) -> dict[str, Any] | None:
    """Build the condition of a step from the innermost `when`; None is the default."""
    after = next((when[status] for when in whens if status in when), otherwise)
    condition = whens[0].get("condition")
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
    names: Counter[str],
    *,
    after: str = AFTER_SUCCESS,
) -> StepSpec:
    step = leaf.step
    kind = get_step_kind(step["type"])
    groups = nested.list_group_bodies(leaf)
    for group in reversed(groups):
        around = _get_delegate_selectors(group, "STEP GROUP", around)
    selectors = _get_delegate_selectors(step, "STEP", around)
    timeout = step.get("timeout", f"{kind.timeout_minutes}m")
    strategies = [strategy for body in (step, *groups) for strategy in body.get("failureStrategies", ())]
    return StepSpec(
        identifier=step["identifier"],
        name=step["name"] if "name" in step else _build_default_name(leaf, names, kind.title),
        type=kind.type,
        spec=dict(step.get("spec", {})),
        timeout_seconds=parse_duration(timeout),
        selectors=selectors.selectors,
        selectors_from=selectors.place,
        failure_strategies=parse_failure_strategies([*strategies, *around_failure]),
        when=_build_condition([body.get("when", {}) for body in (step, *groups)], "stageStatus", after),
        group=leaf.groups[-1] if leaf.groups else None,
        path=leaf.path,
    )


def _build_default_name(leaf: NestedStep, names: Counter[str], title: str) -> str:
    """Build the default name of a step: its kind, numbered if that is not unique."""
    return title if names[title] < 2 else f"{title} ({leaf.identifier})"[:NAME_CHARACTERS]


def _count_names(nested: NestedSteps) -> Counter[str]:
    """Count the names of steps, of those without one the title of their kind."""
    return Counter(
        step.step["name"] if "name" in step.step else get_step_kind(step.step["type"]).title
        for step in nested.steps
    )


def _build_schema_problem(error: ValidationError, document: Document) -> PipelineProblem:
    is_of_value = not list_unknown_keys(error) and not isinstance(error.instance, dict | list)
    return build_problem(_get_error_path(error), describe_violation(error), document, of_value=is_of_value)


def _was_valid_earlier(error: ValidationError) -> bool:
    earlier = EARLIER_PATTERNS.get(str(error.validator_value)) if error.validator == "pattern" else None
    return earlier is not None and re.search(earlier, str(error.instance)) is not None


def _get_error_path(error: ValidationError) -> DocumentPath:
    """Return the path of an error: of the unknown key, else of the invalid value or name."""
    if "propertyNames" in error.absolute_schema_path:
        return (*error.absolute_path, str(error.instance))
    return (*error.absolute_path, *list_unknown_keys(error)[:1])
