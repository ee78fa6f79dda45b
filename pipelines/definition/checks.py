"""What is wrong with a pipeline that its schema cannot say: names, kinds, conditions, what clashes."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.manifests.document import Document, values_of
from pipelines.completion import deferred_expressions
from pipelines.completion.deferred_expressions import Earlier
from pipelines.completion.unresolvable import Nameable
from pipelines.definition.nesting import MOST_DEPTH, PARALLEL, Leaf, Nested, Path, flattened
from pipelines.definition.secret_places import misplaced_secrets
from pipelines.definition.step_sources import shape_faults
from pipelines.inputs.variables import variable_faults
from steps.conditions import BadConditionError, read_condition
from steps.expressions import has_expression, named_in
from steps.kinds.base import NAME_OF_MADE, BadStepError, step_kind
from steps.kinds.outputs import all_outputs
from steps.provisioner_outputs import is_provided, known_outputs, needs_place, path_problem, provisioner_types
from steps.strategies.base import known_strategies
from steps.variables import secret_problem


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a pipeline; line and column count from 1, None if not known."""

    path: str
    message: str
    line: int | None
    column: int | None = None


def problem(path: Path, message: str, document: Document) -> Problem:
    """A problem at a place of a document."""
    place = ".".join(map(str, path))
    return Problem(place, message, document.line_of(path), document.column_of(path))


def nested_steps(spec: Mapping[str, Any]) -> tuple[Nested, Nested]:
    """The steps and the rollback steps of a stage, or those that its strategy fills in (R190).

    Those of a provisioner come first, and what undoes them last (R185). Their places count from the spec.
    """
    before, after = provisioner_steps(spec)
    steps, back = _execution_steps(spec)
    return before.followed_by(steps), back.followed_by(after)


def provisioner_steps(spec: Mapping[str, Any]) -> tuple[Nested, Nested]:
    """The steps of a stage that make its infrastructure, and those that take it down again."""
    said = spec.get("environment", {}).get("provisioner", {})
    place: Path = ("environment", "provisioner")
    return (
        flattened(said.get("steps", []), (*place, "steps")),
        flattened(said.get("rollbackSteps", []), (*place, "rollbackSteps")),
    )


def _execution_steps(spec: Mapping[str, Any]) -> tuple[Nested, Nested]:
    execution = spec.get("execution", {})
    steps, back = execution.get("steps", []), execution.get("rollbackSteps", [])
    if "steps" not in execution and spec.get("strategy") in known_strategies():
        filling = known_strategies()[spec["strategy"]]()
        steps, back = list(filling.steps), list(filling.rollback_steps)
    return flattened(steps, ("execution", "steps")), flattened(back, ("execution", "rollbackSteps"))


def problems_of(value: Mapping[str, Any], document: Document) -> Iterator[Problem]:
    """What keeps a pipeline that fits the schema from being one that can run."""
    for where, message in variable_faults(value.get("variables", {})):
        yield problem(("pipeline", "variables", *where), message, document)
    nameable = Nameable(value.get("variables", {}))
    stages = [item["stage"] for item in value["stages"]]
    yield from _repeated([stage["identifier"] for stage in stages], "stage", "pipeline.stages")
    before: dict[str, Collection[str] | None] = {}
    for number, stage in enumerate(stages):
        place: Path = ("pipeline", "stages", number, "stage")
        checked = _Stage(stage["spec"], (*place, "spec"), before, document, nameable)
        yield from checked.problems()
        # A stage is asked whether it runs before any of its steps has made anything.
        told = _Said(before, [], _provided([]))
        yield from _when_problems(stage, place, told, document, nameable)
        before = {**before, **_outputs(checked.forward.leaves)}
    yield from _secrets_outside_steps(value, document)


def _secrets_outside_steps(value: Mapping[str, Any], document: Document) -> Iterator[Problem]:
    """Secrets in names, conditions, variables and what else is not the spec of a step."""
    for where, text in values_of(value, ("pipeline",)):
        is_in_step = ("step", "spec") in zip(where, where[1:], strict=False)
        if not is_in_step and isinstance(text, str) and (message := secret_problem(text)):
            yield problem(where, message, document)


class _Stage:
    """One stage that is looked through; `before` names the steps of the stages before it."""

    def __init__(
        self, spec: Mapping[str, Any], place: Path, before: Earlier, document: Document, nameable: Nameable
    ) -> None:
        self.spec, self.place, self.before, self.document = spec, place, before, document
        self.nameable = nameable
        self.forward, self.back = nested_steps(spec)
        self.provisioning = len(provisioner_steps(spec)[0].leaves)

    def problems(self) -> Iterator[Problem]:
        strategy = self.spec.get("strategy")
        if strategy is not None and strategy not in known_strategies():
            known = ", ".join(sorted(known_strategies()))
            yield self._at(("strategy",), f"there is no strategy {strategy}; there are {known}")
        if len(self.forward.leaves) == self.provisioning:
            yield self._at((), "the stage has no steps: name a strategy, or list steps under execution")
        yield from self._names()
        yield from self._groups()
        for section, nested in (("steps", self.forward), ("rollbackSteps", self.back)):
            for leaf in nested.leaves:
                place = (*self.place, *leaf.place)
                yield from _step_problems(leaf.step, section, place, self.document, self.nameable.hidden)
        yield from self._aimless()
        for leaf in self.forward.leaves[: self.provisioning]:
            if needs_place(leaf.step["type"]):
                text = f"{leaf.step['type']} needs the cluster that is made here: it belongs under execution"
                yield self._at(leaf.place, text)
        yield from self._whens()

    def _aimless(self) -> Iterator[Problem]:
        """Rollback steps that name something which no step of the stage makes."""
        for leaf in self.back.leaves:
            type_, named = leaf.step["type"], _name_of_made(leaf)
            undone = [_name_of_made(one) for one in self.forward.leaves if _is_undone_by(one, type_)]
            if not named or not undone or any(one == named or has_expression(named + one) for one in undone):
                continue
            known = ", ".join(sorted({one for one in undone if one})) or "none that has one"
            text = f"no step that {type_} undoes has the {NAME_OF_MADE} {named[:60]}; there is {known}"
            yield self._at((*leaf.place, "spec", NAME_OF_MADE), text)

    def _at(self, place: Path, message: str) -> Problem:
        return problem((*self.place, *place), message, self.document)

    def _names(self) -> Iterator[Problem]:
        names = [leaf.identifier for leaf in (*self.forward.leaves, *self.back.leaves)]
        groups = (*self.forward.groups, *self.back.groups)
        names += [group.identifier for group in groups if group.identifier]
        yield from _repeated(names, "step", ".".join(map(str, self.place)))

    def _groups(self) -> Iterator[Problem]:
        for group in (*self.forward.too_deep(), *self.back.too_deep()):
            yield self._at(group.place, f"groups and parallels may lie {MOST_DEPTH} deep at most")
        for index, group in enumerate(self.forward.groups):
            if group.kind == PARALLEL and (text := self._clash(index)):
                yield self._at(group.place, text)

        for group in self.back.groups:
            for name, why in _NOT_BACKWARD.items():
                if name in group.said:
                    yield self._at((*group.place, name), f"a rollback has no {name}: {why}")

    def _clash(self, parallel: int) -> str:
        """Two cannot change one ECS service at once; of two different ones they may."""
        seen: dict[str, str] = {}
        for branch in self.forward.branches(parallel):
            changed = {name: leaf.identifier for leaf in branch if (name := _changed_by(leaf)) is not None}
            for name, identifier in changed.items():
                if name in seen:
                    both = f"{seen[name]} and {identifier}"
                    return f"{both} change the same ECS service: let them run one after the other"
            seen |= changed
        return ""

    def _whens(self) -> Iterator[Problem]:
        names = [leaf.identifier for leaf in self.forward.leaves]
        for leaf in self.forward.leaves:
            told, spec = self._told(self.forward.before(leaf), names), leaf.step.get("spec", {})
            here = (*self.place, *leaf.place)
            faults = (
                *deferred_expressions.faults(spec, told.earlier, names),
                *self._in_vain(leaf),
                *_unprovided(spec, told),
            )
            for fault in faults:
                yield problem((*here, "spec", *fault.where), fault.message, self.document)
            yield from _when_problems(leaf.step, here, told, self.document, self.nameable)
        for group in self.forward.groups:
            first = self.forward.leaves[group.position]
            told = self._told(self.forward.before(first), names)
            place = (*self.place, *group.place)
            yield from _when_problems(group.said, place, told, self.document, self.nameable)
        # A rollback knows what the steps of its stage came to, as far as they did.
        known = self._told(self.forward.leaves, [])
        said = [(leaf.step, leaf.place) for leaf in self.back.leaves]
        for one, place in (*said, *((group.said, group.place) for group in self.back.groups)):
            yield from _when_problems(one, (*self.place, *place), known, self.document, self.nameable)

    def _told(self, before: Sequence[Leaf], others: list[str]) -> "_Said":
        return _Said({**self.before, **_outputs(before)}, others, _provided(before))

    def _in_vain(self, leaf: Leaf) -> Iterator[deferred_expressions.Fault]:
        try:
            kind = step_kind(leaf.step["type"])
        except BadStepError:
            return
        yield from self.nameable.faults(kind, leaf.step.get("spec", {}))


@dataclass(frozen=True)
class _Said:
    """What is known at one place of a stage: `earlier` steps are over, `others` are not."""

    earlier: Earlier
    others: list[str]
    unprovided: Callable[[str], str]
    """What is wrong with a path that names a provisioner's output; nothing of any other."""


def _provided(before: Iterable[Leaf]) -> Callable[[str], str]:
    types = provisioner_types()
    made = [(one.step["type"], one.step.get("spec", {})) for one in before if one.step["type"] in types]
    known = known_outputs(made)
    return lambda path: path_problem(path, known, has_any=bool(made)) if is_provided(path) else ""


def _unprovided(spec: Mapping[str, Any], told: _Said) -> Iterator[deferred_expressions.Fault]:
    for where, path in named_in(spec):
        if message := told.unprovided(path):
            yield deferred_expressions.Fault(where, message)


def _outputs(leaves: Iterable[Leaf]) -> dict[str, Collection[str] | None]:
    """What each of some steps can find out, as far as its type and its spec say."""
    return {one.identifier: all_outputs(one.step["type"], one.step.get("spec", {})) for one in leaves}


def _name_of_made(leaf: Leaf) -> str:
    spec = leaf.step.get("spec")
    return str(spec.get(NAME_OF_MADE) or "") if isinstance(spec, Mapping) else ""


def _is_undone_by(leaf: Leaf, type_: str) -> bool:
    try:
        return step_kind(leaf.step["type"]).is_undone_by(type_)
    except BadStepError:
        return False


def _changed_by(leaf: Leaf) -> str | None:
    """The ECS service that a step changes as far as it says; empty is the one that the stage deploys."""
    try:
        changes = step_kind(leaf.step["type"]).changes_ecs_service
    except BadStepError:
        return None
    return str(leaf.step.get("spec", {}).get("service", "")).strip() if changes else None


def _when_problems(
    said: Mapping[str, Any],
    place: Path,
    told: _Said,
    document: Document,
    nameable: Nameable,
) -> Iterator[Problem]:
    condition = said.get("when", {}).get("condition")
    if not isinstance(condition, str):
        return
    here = (*place, "when", "condition")
    try:
        paths = read_condition(condition).paths
    except BadConditionError as bad:
        paths = ()
        yield problem(here, str(bad), document)
    for message in nameable.faults_of_condition(paths):
        yield problem(here, message, document)
    for message in filter(None, map(told.unprovided, paths)):
        yield problem(here, message, document)
    for fault in deferred_expressions.faults({"condition": condition}, told.earlier, told.others):
        yield problem(here, fault.message, document)


def _step_problems(
    step: Mapping[str, Any], section: str, place: Path, document: Document, hidden: Collection[str]
) -> Iterator[Problem]:
    try:
        kind = step_kind(step["type"])
        kind.spec_from(step.get("spec", {}))
    except BadStepError as bad:
        yield problem((*place, *bad.path), str(bad), document)
        return
    for fault in shape_faults(kind, step.get("spec", {})):
        yield problem((*place, "spec", fault.field), fault.message, document)
    for found in misplaced_secrets(kind, step.get("spec", {}), hidden):
        yield problem((*place, "spec", *found.where), found.message, document)
    for name, why in _NOT_BACKWARD.items():
        if section == "rollbackSteps" and name in step:
            yield problem((*place, name), f"a rollback has no {name}: {why}", document)
    if section not in kind.sections:
        yield problem(place, f"{kind.type} belongs under {kind.sections[0]}", document)


_NOT_BACKWARD = {
    "failureStrategies": "it tries three times and says what it could not restore",
}


def _repeated(names: list[str], what: str, path: str) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(path, f"{count} {what}s are called {name}; identifiers must differ", None)
