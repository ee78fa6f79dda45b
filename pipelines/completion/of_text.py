"""What expressions may name at a place of a pipeline that is being written: no values, for nothing ran."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.effective.resolution import overridden
from catalog.manifests.document import BadDocument, Document, parse
from catalog.models import Environment, Infrastructure, Service
from pipelines.completion.names import AFTER_LAST, Choice, Known, State, secret, step_title
from pipelines.completion.sources import source_of
from pipelines.definition.targets import nearest, nearest_service
from pipelines.editor.places import (
    STAGES,
    Path,
    body_of,
    children_of,
    execution_path,
    items_of,
    kind_of,
    provisioner_items,
    provisioner_path,
)
from pipelines.models import Pipeline
from rbac.models import Scope
from rbac.policy import NotVisible, Principal, can
from steps.expression_names import DIGEST, FIXED
from steps.kinds.outputs import known_within, outputs_of
from steps.provisioner_outputs import provisioner_types
from steps.strategies.base import known_strategies

SECRET_TYPE = "Secret"  # noqa: S105 - a type of variable


@dataclass(frozen=True)
class Mark:
    """A stage, a group or a step as it is written, and the groups around it with the branch it is in."""

    body: Mapping[str, Any]
    kind: str
    at: Path
    stage: int
    around: tuple[tuple[Path, bool, int], ...] = ()

    @property
    def identifier(self) -> str:
        return str(self.body.get("identifier") or "")

    @property
    def title(self) -> str:
        """How people choose it."""
        return step_title(str(self.body.get("name") or ""), self.identifier)

    @property
    def is_forward(self) -> bool:
        """Whether it is a step that is not a rollback step."""
        return self.kind == "step" and "rollbackSteps" not in self.at

    @property
    def type(self) -> str:
        return str(self.body.get("type") or "") if self.kind == "step" else ""

    def is_beside(self, other: "Mark") -> bool:
        """Whether they are in different branches of one parallel."""
        for (group, is_parallel, branch), (other_group, _, other_branch) in zip(
            self.around, other.around, strict=False
        ):
            if group != other_group:
                return False
            if branch != other_branch:
                return is_parallel
        return False


class Draft:
    """A text that may be half written, as far as it can be read."""

    def __init__(self, text: str) -> None:
        self.document = _readable(text.replace("\r\n", "\n"))
        tree = self.document.value
        pipeline = tree.get("pipeline") if isinstance(tree, dict) else None
        self.pipeline: dict[str, Any] = pipeline if isinstance(pipeline, dict) else {}
        stages = self.pipeline.get("stages")
        self.stages: list[Any] = stages if isinstance(stages, list) else []
        self.marks = [one for n, stage in enumerate(self.stages) for one in _marks_of(stage, n)]

    def at_line(self, line: int) -> Mark | None:
        """The mark that a line (from 1) belongs to: the last one that begins before it."""
        found = None
        for mark in self.marks:
            begins = self.document.line_of(mark.at[:-1])
            if begins is not None and begins <= line:
                found = mark
        return found

    def at_path(self, path: Path) -> Mark | None:
        """The mark that a path leads to or into."""
        leading = [mark for mark in self.marks if mark.at[:-1] == path[: len(mark.at) - 1]]
        return max(leading, key=lambda mark: len(mark.at), default=None)

    def choices(self) -> list[Choice]:
        """Every place that can be chosen by name: each step, what follows a stage's last, rollback steps."""
        found: list[Choice] = []
        for number, stage in enumerate(self.stages):
            body = body_of(stage)
            before, title = str(body.get("identifier") or ""), str(body.get("name") or body.get("identifier"))
            steps = [
                (one.is_forward, Choice(f"{before}/{one.identifier}", one.title, title))
                for one in self.marks
                if one.stage == number and one.kind == "step" and one.identifier
            ]
            found += [choice for is_forward, choice in steps if is_forward]
            found.append(Choice(f"{before}/", AFTER_LAST, title))
            found += [choice.in_rollback() for is_forward, choice in steps if not is_forward]
        return found

    def named(self, key: str) -> tuple[Mark, bool]:
        """The mark that STAGE/STEP names, and whether what follows the stage's last step is meant.

        Raises `NotVisible`.
        """
        stage, _, step = key.partition("/")
        for mark in self.marks:
            if mark.kind == "stage" and mark.identifier == stage and not step:
                return mark, True
            if mark.kind == "step" and mark.identifier == step and self._stage_of(mark) == stage:
                return mark, False
        raise NotVisible("This pipeline has no such step.")

    def _stage_of(self, mark: Mark) -> str:
        return str(body_of(self.stages[mark.stage]).get("identifier") or "")

    def names_at(self, mark: Mark | None, *, is_behind: bool = False) -> list[Known]:
        """What can be named there, apart from what the service and its place know."""
        found = [Known(path, source_of(path, {}), about) for path, about in {**FIXED, **DIGEST}.items()]
        found += self._variables()
        if mark is not None:
            found += self._outputs(mark, is_behind=is_behind)
            if not is_behind:
                found += [
                    Known(name, "This step, as it goes on", about, State.LATER)
                    for name, about in known_within(mark.type).items()
                ]
        return found

    def _variables(self) -> Iterator[Known]:
        variables = self.pipeline.get("variables")
        for name, said in variables.items() if isinstance(variables, dict) else ():
            is_secret = isinstance(said, dict) and said.get("type") == SECRET_TYPE
            about = said.get("description", "") if isinstance(said, dict) else ""
            for path in (f"pipeline.variables.{name}", f"variables.{name}"):
                one = Known(path, source_of(path, {}), about if isinstance(about, str) else "")
                yield secret(one) if is_secret else one

    def _outputs(self, mark: Mark, *, is_behind: bool) -> Iterator[Known]:
        for one in self._before(mark, is_behind=is_behind):
            if not one.identifier:
                continue
            source = f"Step {one.body.get('name') or one.identifier}"
            for name, about in outputs_of(one.type, one.body.get("spec")).items():
                path = f"execution.steps.{one.identifier}.output.{name}"
                yield Known(path, source, about, State.LATER)
                if one.stage == mark.stage and one.type in provisioner_types():
                    yield Known(f"provisioner.{name}", source, about, State.LATER)

    def _before(self, mark: Mark, *, is_behind: bool) -> list[Mark]:
        """The steps that are over by then; a rollback step knows all of its stage, and nobody knows of it."""
        steps = [one for one in self.marks if one.is_forward]
        if is_behind or "rollbackSteps" in mark.at:
            return [one for one in steps if one.stage <= mark.stage]
        at = self.marks.index(mark)
        return [one for one in steps if self.marks.index(one) < at and not one.is_beside(mark)]


def written_names(
    draft: Draft, mark: Mark | None, scope: Scope, person: Principal, *, is_behind: bool = False
) -> list[Known]:
    """What can be named at a place of a text, with the variables of what its stage deploys and where.

    Of a service or an environment that `person` may not view, nothing is told.
    """
    found = draft.names_at(mark, is_behind=is_behind)
    stage = body_of(draft.stages[mark.stage]) if mark is not None else {}
    spec = stage.get("spec")
    return [*found, *_of_place(spec if isinstance(spec, dict) else {}, scope, person)]


def _of_place(spec: Mapping[str, Any], scope: Scope, person: Principal) -> Iterator[Known]:
    service = nearest_service(scope, _ref(spec, "service", "serviceRef"))
    environment = nearest(Environment, scope, _ref(spec, "environment", "environmentRef"))
    if service is not None and not can(person, "core_service_view", service):
        service = None
    if environment is not None and not can(person, "core_environment_view", environment):
        environment = None
    of_service = {*service.variables, *service.required_variables} if service else set()
    of_environment = set(environment.variables) if environment else set()
    counting = of_service | of_environment
    if service and environment:
        counting |= _of_overrides(service, environment, spec)
    names = {
        "service.variables": of_service,
        "env.variables": of_environment,
        "serviceVariables": counting,
        "variables": counting,
    }
    for before, known in names.items():
        for name in known:
            yield Known(f"{before}.{name}", source_of(f"{before}.{name}", {}))


def _of_overrides(service: Service, environment: Environment, spec: Mapping[str, Any]) -> set[str]:
    written = spec["environment"].get("infrastructureDefinitions")
    first = written[0] if isinstance(written, list) and written else {}
    identifier = str(first.get("identifier") or "") if isinstance(first, dict) else ""
    place = Infrastructure.objects.filter(environment=environment, identifier=identifier).first()
    return {name for level in overridden(service, environment, place).values for name in level}


def _ref(spec: Mapping[str, Any], what: str, name: str) -> str:
    found = spec.get(what)
    said = found.get(name) if isinstance(found, dict) else ""
    return said if isinstance(said, str) else ""


def _readable(text: str) -> Document:
    """A text, without the line where it breaks: what is being typed there is often half of something."""
    for _ in range(2):
        try:
            return parse(text, "pipeline")
        except BadDocument as bad:
            lines = text.split("\n")
            lines[min(bad.line, len(lines)) - 1] = ""
            text = "\n".join(lines)
    return Document("pipeline", None)


def _marks_of(stage: Any, number: int) -> Iterator[Mark]:
    at: Path = (*STAGES, number)
    body = body_of(stage)
    yield Mark(body, "stage", (*at, "stage"), number)
    yield from _inside(provisioner_items(stage, "steps"), (*provisioner_path(at), "steps"), number, ())
    for section in ("steps", "rollbackSteps"):
        items = items_of(stage, section) or _filled_in(body, section)
        yield from _inside(items, (*execution_path(at), section), number, ())
    items = provisioner_items(stage, "rollbackSteps")
    yield from _inside(items, (*provisioner_path(at), "rollbackSteps"), number, ())


def _filled_in(body: Mapping[str, Any], section: str) -> list[Any]:
    """The steps that a strategy puts where none are written."""
    spec = body.get("spec")
    strategy = known_strategies().get(str(spec.get("strategy"))) if isinstance(spec, dict) else None
    if strategy is None:
        return []
    filling = strategy()
    return list(filling.steps if section == "steps" else filling.rollback_steps)


def _inside(
    items: list[Any],
    at: Path,
    stage: int,
    around: tuple[tuple[Path, bool, int], ...],
    *,
    is_parallel: bool = False,
) -> Iterator[Mark]:
    for number, item in enumerate(items):
        kind, here = kind_of(item), (*at, number)
        inside = (*around, (at, is_parallel, number))
        if kind in ("step", "stepGroup"):
            yield Mark(body_of(item), kind, (*here, kind), stage, inside)
        inner, where = children_of(item, here)
        if inner:
            yield from _inside(inner, where, stage, inside, is_parallel=kind == "parallel")


def names_of_pipeline(pipeline: Pipeline, key: str, person: Principal) -> tuple[str, list[Known]]:
    """What can be named at a place of a saved pipeline, and the key of that place.

    Without a key, the first step is meant. Raises `NotVisible`.
    """
    draft = Draft(pipeline.yaml)
    choices = draft.choices()
    chosen = key or (choices[0].key if choices else "")
    if not chosen:
        return "", written_names(draft, None, pipeline.scope, person)
    mark, is_behind = draft.named(chosen)
    return chosen, written_names(draft, mark, pipeline.scope, person, is_behind=is_behind)
