"""Checks of a pipeline beyond its schema: identifiers, conditions, expressions, conflicts."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from catalog.manifests.documents import Document, iterate_scalars
from pipelines.definition import deferred_expressions
from pipelines.definition.deferred_expressions import (
    EarlierOutputs,
    EarlierSteps,
    ExpressionProblem,
    StepOutputs,
    is_deferred,
)
from pipelines.definition.nesting import (
    MAX_DEPTH,
    PARALLEL,
    DocumentPath,
    NestedStep,
    NestedSteps,
    flatten_steps,
)
from pipelines.definition.secret_checks import (
    describe_secret_input_problem,
    list_misplaced_secrets,
    list_secret_inputs,
)
from pipelines.definition.step_manifest_sources import find_source_problems
from pipelines.inputs.variables import find_variable_problems
from steps.conditions import BadConditionError, parse_condition
from steps.expression_names import DIGEST, FIXED
from steps.expressions import (
    BadExpressionError,
    describe_secret_problem,
    find_paths,
    get_path_value,
    has_expression,
    is_path,
)
from steps.kinds.outputs import (
    describe_path_problem,
    is_provisioner_path,
    list_all_outputs,
    list_provisioner_outputs,
    list_provisioner_types,
)
from steps.kinds.registry import (
    PROVISIONER_IDENTIFIER,
    BadStepError,
    StepKind,
    get_step_kind,
    get_step_kinds,
    needs_cluster,
)
from steps.strategies.registry import get_strategies

# Names that services, environments and overrides define; the pipeline alone cannot check them.
_UNCHECKED_PREFIXES = (
    "env.variables",
    "service.variables",
    "serviceVariables",
    "variables",
    "secrets",
    "input",
)


class ExpressionChecker:
    """Checker of expressions against the names that a pipeline defines."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.secret_inputs = list_secret_inputs(variables)
        self._known: dict[str, Any] = {}
        for path in (*FIXED, *DIGEST, *(f"pipeline.variables.{name}" for name in variables)):
            *before, last = path.split(".")
            inner = self._known
            for part in before:
                inner = inner.setdefault(part, {})
            inner[last] = ""

    def find_problems(self, kind: StepKind, spec: Mapping[str, Any]) -> Iterator[ExpressionProblem]:
        """Yield the unresolvable expressions of a spec, except those in manifests."""
        within = kind.own_expressions
        filled = {name: value for name, value in spec.items() if name not in kind.manifests}
        for where, path in find_paths(filled):
            if path.partition(".")[0] not in within and (message := self._describe_problem(path)):
                yield ExpressionProblem(where, message)

    def find_condition_problems(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the problems with unresolvable paths of a condition."""
        return (
            message
            for path in paths
            if (
                message := describe_secret_input_problem(path, self.secret_inputs)
                or self._describe_problem(path)
            )
        )

    def _describe_problem(self, path: str) -> str:
        if (
            not is_path(path)
            or is_deferred(path)
            or any(f"{path}.".startswith(f"{prefix}.") for prefix in _UNCHECKED_PREFIXES)
        ):
            return ""
        try:
            get_path_value(path, self._known)
        except BadExpressionError as bad:
            return bad.message
        return ""


@dataclass(frozen=True)
class PipelineProblem:
    """A problem of a pipeline; line and column count from 1, None if unknown."""

    path: str
    message: str
    line: int | None
    column: int | None = None


def build_problem(
    path: DocumentPath, message: str, document: Document, *, of_value: bool = False
) -> PipelineProblem:
    """Build a problem at a path of a document: at the key, or at its value."""
    place = ".".join(map(str, path))
    column = document.get_value_column(path) if of_value else document.get_column(path)
    return PipelineProblem(place, message, document.get_line(path), column)


def find_step_faults(value: Any, document: Document) -> Iterator[PipelineProblem]:
    """Yield the faults in types and specs of steps; the rest of the pipeline may have any shape."""
    for path, step in _find_steps(value, ()):
        if isinstance(step.get("type"), str) and isinstance(step.get("spec", {}), Mapping):
            yield from _find_step_fault(step, path, document)


def _find_steps(value: Any, path: DocumentPath) -> Iterator[tuple[DocumentPath, Mapping[str, Any]]]:
    items = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, item in items:
        if key == "step" and isinstance(item, Mapping):
            yield (*path, key), item
        else:
            yield from _find_steps(item, (*path, key))


def _find_step_fault(
    step: Mapping[str, Any], place: DocumentPath, document: Document
) -> Iterator[PipelineProblem]:
    try:
        get_step_kind(step["type"]).parse_spec(step.get("spec", {}))
    except BadStepError as bad:
        yield build_problem((*place, *bad.path), str(bad), document, of_value=bad.path == ("type",))


def list_nested_steps(spec: Mapping[str, Any]) -> tuple[NestedSteps, NestedSteps]:
    """Return the steps and the rollback steps of a stage, or its strategy's defaults (R190).

    Provisioner steps come first, their rollback steps last (R185). Paths are relative to the spec.
    """
    before, after = list_provisioner_steps(spec)
    steps, back = _list_execution_steps(spec)
    return before.concatenate(steps), back.concatenate(after)


def list_provisioner_steps(spec: Mapping[str, Any]) -> tuple[NestedSteps, NestedSteps]:
    """Return the steps of a stage's provisioner, and its rollback steps."""
    provisioner = spec.get("environment", {}).get("provisioner", {})
    place: DocumentPath = ("environment", "provisioner")
    return (
        flatten_steps(provisioner.get("steps", []), (*place, "steps")),
        flatten_steps(provisioner.get("rollbackSteps", []), (*place, "rollbackSteps")),
    )


def _list_execution_steps(spec: Mapping[str, Any]) -> tuple[NestedSteps, NestedSteps]:
    execution = spec.get("execution", {})
    steps, back = execution.get("steps", []), execution.get("rollbackSteps", [])
    if "steps" not in execution and spec.get("strategy") in get_strategies():
        filling = get_strategies()[spec["strategy"]]()
        steps, back = list(filling.steps), list(filling.rollback_steps)
    return flatten_steps(steps, ("execution", "steps")), flatten_steps(back, ("execution", "rollbackSteps"))


def find_problems(
    value: Mapping[str, Any], document: Document, *, has_run: bool = False
) -> Iterator[PipelineProblem]:
    """Yield the problems that prevent a schema-valid pipeline from running, or from running again."""
    for where, message in find_variable_problems(value.get("variables", {}), has_run=has_run):
        yield build_problem(("pipeline", "variables", *where), message, document)
    nameable = ExpressionChecker(value.get("variables", {}))
    stages = [item["stage"] for item in value["stages"]]
    yield from _find_duplicates([stage["identifier"] for stage in stages], "stage", "pipeline.stages")
    before: dict[str, Collection[str] | None] = {}
    for number, stage in enumerate(stages):
        place: DocumentPath = ("pipeline", "stages", number, "stage")
        checked = _StageChecker(stage["spec"], (*place, "spec"), before, document, nameable)
        yield from checked.find_problems()
        # The condition of a stage is evaluated before its steps produce outputs.
        outputs = _KnownOutputs(before, [], _build_provisioner_check([]))
        yield from _find_condition_problems(stage, place, outputs, document, nameable)
        before = {**before, **_list_step_outputs(checked.steps.steps)}
    yield from _find_secrets_outside_steps(value, document)


def _find_secrets_outside_steps(value: Mapping[str, Any], document: Document) -> Iterator[PipelineProblem]:
    """Yield secrets outside of step specs: in names, conditions and variables."""
    for where, text in iterate_scalars(value, ("pipeline",)):
        is_in_step = ("step", "spec") in zip(where, where[1:], strict=False)
        if not is_in_step and isinstance(text, str) and (message := describe_secret_problem(text)):
            yield build_problem(where, message, document)


class _StageChecker:
    """Checker of one stage; `earlier_stages` has the step names of the stages before it."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        place: DocumentPath,
        before: EarlierOutputs,
        document: Document,
        nameable: ExpressionChecker,
    ) -> None:
        self.spec, self.path, self.earlier_stages, self.document = spec, place, before, document
        self.nameable = nameable
        self.steps, self.rollback_steps = list_nested_steps(spec)
        self.provisioner_step_count = len(list_provisioner_steps(spec)[0].steps)

    def find_problems(self) -> Iterator[PipelineProblem]:
        strategy = self.spec.get("strategy")
        if strategy is not None and strategy not in get_strategies():
            choices = ", ".join(sorted(get_strategies()))
            yield self._build_problem(("strategy",), f"unknown strategy {strategy}; use one of {choices}")
        if len(self.steps.steps) == self.provisioner_step_count:
            yield self._build_problem(
                (), "the stage has no steps: set a strategy, or add steps under execution"
            )
        yield from self._find_duplicate_identifiers()
        yield from self._find_group_problems()
        for section, nested in (("steps", self.steps), ("rollbackSteps", self.rollback_steps)):
            for leaf in nested.steps:
                place = (*self.path, *leaf.path)
                yield from _find_step_problems(
                    leaf.step, section, place, self.document, self.nameable.secret_inputs
                )
        yield from self._find_rollbacks_without_step()
        yield from self._find_misplaced_steps()
        for leaf in self.steps.steps[: self.provisioner_step_count]:
            if needs_cluster(leaf.step["type"]):
                text = (
                    f"{leaf.step['type']} needs the cluster, which does not exist yet: move the step to "
                    "execution"
                )
                yield self._build_problem(leaf.path, text)
        yield from self._find_expression_problems()

    def _find_rollbacks_without_step(self) -> Iterator[PipelineProblem]:
        """Yield rollback steps that use outputs no step of the stage produces."""
        undone_by: dict[str, list[str]] = {}
        for leaf in self.rollback_steps.steps:
            type_, named = leaf.step["type"], _get_provisioner_identifier(leaf)
            if not named:
                continue
            if type_ not in undone_by:
                undone_by[type_] = [
                    _get_provisioner_identifier(step)
                    for step in self.steps.steps
                    if _is_undone_by_step(step, type_)
                ]
            undone = undone_by[type_]
            if not undone or any(
                identifier == named or has_expression(named + identifier) for identifier in undone
            ):
                continue
            choices = ", ".join(sorted({identifier for identifier in undone if identifier})) or "none"
            text = (
                f"no step undone by {type_} has the {PROVISIONER_IDENTIFIER} {named[:60]}; use one of: "
                f"{choices}"
            )
            yield self._build_problem((*leaf.path, "spec", PROVISIONER_IDENTIFIER), text)

    def _find_misplaced_steps(self) -> Iterator[PipelineProblem]:
        """Yield steps that need others before and after them, which the stage does not have there."""
        types = [str(leaf.step["type"]) for leaf in self.steps.steps]
        for index, leaf in enumerate(self.steps.steps):
            kind = get_step_kinds().get(types[index])
            if kind is None or not kind.comes_between:
                continue
            first, last = kind.comes_between
            if first not in types[:index]:
                yield self._build_problem(leaf.path, f"{kind.type} comes after a step of type {first}")
            elif last not in types[index:]:
                yield self._build_problem(leaf.path, f"{kind.type} comes before a step of type {last}")

    def _build_problem(self, place: DocumentPath, message: str) -> PipelineProblem:
        return build_problem((*self.path, *place), message, self.document)

    def _find_duplicate_identifiers(self) -> Iterator[PipelineProblem]:
        names = [leaf.identifier for leaf in (*self.steps.steps, *self.rollback_steps.steps)]
        groups = (*self.steps.groups, *self.rollback_steps.groups)
        names += [group.identifier for group in groups if group.identifier]
        yield from _find_duplicates(names, "step", ".".join(map(str, self.path)))

    def _find_group_problems(self) -> Iterator[PipelineProblem]:
        for group in (*self.steps.list_too_deep(), *self.rollback_steps.list_too_deep()):
            yield self._build_problem(
                group.path, (f"step groups and parallel blocks can be nested at most {MAX_DEPTH} levels deep")
            )
        for index, group in enumerate(self.steps.groups):
            if group.kind == PARALLEL and (text := self._describe_conflict(index)):
                yield self._build_problem(group.path, text)

        for group in self.rollback_steps.groups:
            for name, why in _FORBIDDEN_ROLLBACK_KEYS.items():
                if name in group.body:
                    yield self._build_problem(
                        (*group.path, name), (f"{name} is not allowed in rollback steps: {why}")
                    )

    def _describe_conflict(self, parallel: int) -> str:
        """Describe parallel steps that change the same ECS service; empty if there are none."""
        earlier: dict[str, str] = {}
        for branch in self.steps.list_branches(parallel):
            changed = {
                name: leaf.identifier for leaf in branch if (name := _get_changed_service(leaf)) is not None
            }
            for name, identifier in changed.items():
                if name in earlier:
                    both = f"{earlier[name]} and {identifier}"
                    return f"{both} change the same ECS service: run them one after the other"
            earlier |= changed
        return ""

    def _find_expression_problems(self) -> Iterator[PipelineProblem]:
        names = [leaf.identifier for leaf in self.steps.steps]
        own_outputs = StepOutputs(self.steps, _list_step_outputs(self.steps.steps), self.earlier_stages)
        for position, leaf in enumerate(self.steps.steps):
            outputs = self._get_known_outputs(own_outputs, position, names)
            spec, step_path = leaf.step.get("spec", {}), (*self.path, *leaf.path)
            faults = chain(
                deferred_expressions.find_step_problems(spec, outputs.earlier, names),
                self._find_unresolvable(leaf),
                _find_provisioner_problems(spec, outputs),
            )
            for fault in faults:
                yield build_problem((*step_path, "spec", *fault.location), fault.message, self.document)
            yield from _find_condition_problems(leaf.step, step_path, outputs, self.document, self.nameable)
        for group in self.steps.groups:
            outputs = self._get_known_outputs(own_outputs, group.position, names)
            place = (*self.path, *group.path)
            yield from _find_condition_problems(group.body, place, outputs, self.document, self.nameable)
        # Rollback steps may use the outputs of all steps of their stage.
        earlier = {**self.earlier_stages, **own_outputs.outputs}
        stage_outputs = _KnownOutputs(earlier, [], _build_provisioner_check(self.steps.steps))
        bodies = [(leaf.step, leaf.path) for leaf in self.rollback_steps.steps]
        for body, place in (*bodies, *((group.body, group.path) for group in self.rollback_steps.groups)):
            yield from _find_condition_problems(
                body, (*self.path, *place), stage_outputs, self.document, self.nameable
            )

    def _get_known_outputs(self, outputs: StepOutputs, at: int, names: list[str]) -> "_KnownOutputs":
        return _KnownOutputs(
            EarlierSteps(outputs, at), names, _build_provisioner_check(self.steps.iterate_earlier(at))
        )

    def _find_unresolvable(self, leaf: NestedStep) -> Iterator[deferred_expressions.ExpressionProblem]:
        try:
            kind = get_step_kind(leaf.step["type"])
        except BadStepError:
            return
        yield from self.nameable.find_problems(kind, leaf.step.get("spec", {}))


@dataclass(frozen=True)
class _KnownOutputs:
    """Outputs known at a position of a stage; `earlier` steps have ended, `other_steps` have not."""

    earlier: EarlierOutputs
    other_steps: list[str]
    describe_provisioner_problem: Callable[[str], str]
    """Describe the problem with the path of a provisioner output; empty for a valid or another path."""


def _build_provisioner_check(before: Iterable[NestedStep]) -> Callable[[str], str]:
    @cache
    def list_made() -> list[tuple[str, Mapping[str, Any]]]:
        types = list_provisioner_types()
        return [
            (step.step["type"], step.step.get("spec", {})) for step in before if step.step["type"] in types
        ]

    def describe_problem(path: str) -> str:
        if not is_provisioner_path(path):
            return ""
        return describe_path_problem(path, list_provisioner_outputs(list_made()), has_any=bool(list_made()))

    return describe_problem


def _find_provisioner_problems(
    spec: Mapping[str, Any], outputs: _KnownOutputs
) -> Iterator[deferred_expressions.ExpressionProblem]:
    for where, path in find_paths(spec):
        if message := outputs.describe_provisioner_problem(path):
            yield deferred_expressions.ExpressionProblem(where, message)


def _list_step_outputs(leaves: Iterable[NestedStep]) -> dict[str, Collection[str] | None]:
    """Return the outputs that steps can produce, judged by type and spec."""
    return {
        leaf.identifier: list_all_outputs(leaf.step["type"], leaf.step.get("spec", {})) for leaf in leaves
    }


def _get_provisioner_identifier(leaf: NestedStep) -> str:
    spec = leaf.step.get("spec")
    return str(spec.get(PROVISIONER_IDENTIFIER) or "") if isinstance(spec, Mapping) else ""


def _is_undone_by_step(leaf: NestedStep, type_: str) -> bool:
    try:
        return get_step_kind(leaf.step["type"]).is_undone_by(type_)
    except BadStepError:
        return False


def _get_changed_service(leaf: NestedStep) -> str | None:
    """Return the ECS service that a step changes; empty is the one that the stage deploys."""
    try:
        changes = get_step_kind(leaf.step["type"]).changes_ecs_service
    except BadStepError:
        return None
    return str(leaf.step.get("spec", {}).get("service", "")).strip() if changes else None


def _find_condition_problems(
    body: Mapping[str, Any],
    place: DocumentPath,
    outputs: _KnownOutputs,
    document: Document,
    nameable: ExpressionChecker,
) -> Iterator[PipelineProblem]:
    condition = body.get("when", {}).get("condition")
    if not isinstance(condition, str):
        return
    condition_path = (*place, "when", "condition")
    try:
        paths = parse_condition(condition).paths
    except BadConditionError as bad:
        paths = ()
        yield build_problem(condition_path, str(bad), document)
    for message in nameable.find_condition_problems(paths):
        yield build_problem(condition_path, message, document)
    for message in filter(None, map(outputs.describe_provisioner_problem, paths)):
        yield build_problem(condition_path, message, document)
    for fault in deferred_expressions.find_step_problems(
        {"condition": condition}, outputs.earlier, outputs.other_steps
    ):
        yield build_problem(condition_path, fault.message, document)


def _find_step_problems(
    step: Mapping[str, Any], section: str, place: DocumentPath, document: Document, hidden: Collection[str]
) -> Iterator[PipelineProblem]:
    faults = list(_find_step_fault(step, place, document))
    if faults:
        yield from faults
        return
    kind = get_step_kind(step["type"])
    for fault in find_source_problems(kind, step.get("spec", {})):
        yield build_problem((*place, "spec", fault.field), fault.message, document)
    for problem in list_misplaced_secrets(kind, step.get("spec", {}), hidden):
        yield build_problem((*place, "spec", *problem.location), problem.message, document)
    for name, why in _FORBIDDEN_ROLLBACK_KEYS.items():
        if section == "rollbackSteps" and name in step:
            yield build_problem((*place, name), f"{name} is not allowed in rollback steps: {why}", document)
    if section not in kind.sections:
        yield build_problem(place, f"{kind.type} is only allowed under {kind.sections[0]}", document)


_FORBIDDEN_ROLLBACK_KEYS = {
    "failureStrategies": "a rollback retries three times and reports what it could not restore",
}


def _find_duplicates(names: list[str], kind: str, path: str) -> Iterator[PipelineProblem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield PipelineProblem(
                path, f"{count} {kind}s have the identifier {name}; identifiers must be unique", None
            )
