"""A pipeline's YAML, read into values: stages, steps, and the problems that keep it from being one."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

import deployments.steps
import deployments.strategies  # noqa: F401 - registers every strategy
from deployments import late
from deployments.failure_strategies import seconds_of, strategies_from
from deployments.manifests.document import BadDocument, Document, parse
from deployments.pipeline_schema import PIPELINE_SCHEMA
from deployments.pipeline_words import in_words, unknown_keys
from deployments.step_manifests import shape_faults
from deployments.steps.base import BadStepError, Unit, step_kind
from deployments.strategies.base import known_strategies

_VALIDATOR = Draft202012Validator(PIPELINE_SCHEMA)
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a pipeline; line and column count from 1, None if not known."""

    path: str
    message: str
    line: int | None
    column: int | None = None


class BadPipelineError(ValueError):
    """The YAML is not a pipeline that can run."""

    def __init__(self, problems: list[Problem]) -> None:
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

    @property
    def units(self) -> tuple[Unit, ...]:
        """The plan of this step, which depends on its spec alone."""
        return step_kind(self.type).units(self.spec)


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


@dataclass(frozen=True)
class PipelineSpec:
    """A pipeline that can run."""

    identifier: str
    name: str
    variables: dict[str, Any]
    stages: tuple[StageSpec, ...]


def read_pipeline(text: str, name: str = "pipeline") -> PipelineSpec:
    """Read a pipeline's YAML.

    Raises `BadPipelineError` with every problem found, each with its path and line.
    """
    try:
        document = parse(text, name)
    except BadDocument as bad:
        raise BadPipelineError([Problem("", bad.message, bad.line, bad.column)]) from bad
    if errors := list(_VALIDATOR.iter_errors(document.value)):
        raise BadPipelineError([_from_schema(error, document) for error in errors[:50]])
    value = document.value["pipeline"]
    problems = list(_problems(value, document))
    if problems:
        raise BadPipelineError(problems)
    return PipelineSpec(
        identifier=value["identifier"],
        name=value["name"],
        variables=value.get("variables", {}),
        stages=tuple(_stage(item["stage"], _asked(value, "PIPELINE")) for item in value["stages"]),
    )


@dataclass(frozen=True)
class _Asked:
    """The tags that delegates must have, and where the pipeline says so: the innermost place counts."""

    selectors: tuple[str, ...] = ()
    place: str = ""


def _asked(value: Mapping[str, Any], place: str, around: _Asked | None = None) -> _Asked:
    selectors = tuple(value.get("delegateSelectors", ()))
    return _Asked(selectors, place) if selectors else around or _Asked()


def _stage(stage: Mapping[str, Any], around: _Asked) -> StageSpec:
    spec = stage["spec"]
    asked = _asked(stage, "STAGE", around)
    steps, rollback_steps = _step_documents(spec)
    around_failure = strategies_from(stage.get("failureStrategies", ()))
    return StageSpec(
        identifier=stage["identifier"],
        name=stage.get("name", stage["identifier"]),
        service=spec["service"]["serviceRef"],
        environment=spec["environment"]["environmentRef"],
        infrastructure=spec["environment"]["infrastructureDefinitions"][0]["identifier"],
        steps=tuple(_step(item["step"], asked, around_failure) for item in steps),
        rollback_steps=tuple(_step(item["step"], asked) for item in rollback_steps),
    )


def _step_documents(spec: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The steps that a stage names, or those that its strategy fills in (R190)."""
    execution = spec.get("execution", {})
    if "steps" not in execution and spec.get("strategy") in known_strategies():
        filling = known_strategies()[spec["strategy"]]()
        return list(filling.steps), list(filling.rollback_steps)
    return execution.get("steps", []), execution.get("rollbackSteps", [])


def _step(
    step: Mapping[str, Any], around: _Asked, around_failure: tuple[dict[str, Any], ...] = ()
) -> StepSpec:
    kind = step_kind(step["type"])
    asked = _asked(step, "STEP", around)
    timeout = step.get("timeout", f"{kind.timeout_minutes}m")
    return StepSpec(
        identifier=step["identifier"],
        name=step.get("name", kind.title),
        type=kind.type,
        spec=dict(step.get("spec", {})),
        timeout_seconds=seconds_of(timeout),
        selectors=asked.selectors,
        selectors_from=asked.place,
        failure_strategies=(*strategies_from(step.get("failureStrategies", ())), *around_failure),
    )


def _problems(value: Mapping[str, Any], document: Document) -> Iterator[Problem]:
    stages = [item["stage"] for item in value["stages"]]
    yield from _repeated([stage["identifier"] for stage in stages], "stage", "pipeline.stages", document)
    for number, stage in enumerate(stages):
        spec = stage["spec"]
        place: Path = ("pipeline", "stages", number, "stage", "spec")
        strategy = spec.get("strategy")
        if strategy is not None and strategy not in known_strategies():
            known = ", ".join(sorted(known_strategies()))
            yield _problem(
                (*place, "strategy"), f"there is no strategy {strategy}; there are {known}", document
            )
        steps, rollback_steps = _step_documents(spec)
        if not steps:
            text = "the stage has no steps: name a strategy, or list steps under execution"
            yield _problem(place, text, document)
        yield from _unknown_outputs(stages[: number + 1], steps, place, document)
        names = [item["step"]["identifier"] for item in (*steps, *rollback_steps)]
        yield from _repeated(names, "step", ".".join(map(str, place)), document)
        for section, items in (("steps", steps), ("rollbackSteps", rollback_steps)):
            for index, item in enumerate(items):
                here: Path = (*place, "execution", section, index, "step")
                yield from _step_problems(item["step"], section, here, document)


def _unknown_outputs(
    stages: list[Mapping[str, Any]], steps: list[Any], place: Path, document: Document
) -> Iterator[Problem]:
    """The steps whose outputs are named before they can be known."""
    before = [
        item["step"]["identifier"] for stage in stages[:-1] for item in _step_documents(stage["spec"])[0]
    ]
    names = [item["step"]["identifier"] for item in steps]
    for index, item in enumerate(steps):
        earlier = [*before, *names[:index]]
        for fault in late.faults(item["step"].get("spec", {}), earlier, names):
            here: Path = (*place, "execution", "steps", index, "step", "spec", *fault.where)
            yield _problem(here, fault.message, document)


def _step_problems(
    step: Mapping[str, Any], section: str, place: Path, document: Document
) -> Iterator[Problem]:
    try:
        kind = step_kind(step["type"])
        kind.spec_from(step.get("spec", {}))
    except BadStepError as bad:
        yield _problem((*place, *bad.path), str(bad), document)
        return
    for fault in shape_faults(kind, step.get("spec", {})):
        yield _problem((*place, "spec", fault.field), fault.message, document)
    if section == "rollbackSteps" and "failureStrategies" in step:
        text = "a rollback has no failureStrategies: it tries three times and says what it could not restore"
        yield _problem((*place, "failureStrategies"), text, document)
    if section not in kind.sections:
        yield _problem(place, f"{kind.type} belongs under {kind.sections[0]}", document)


def _repeated(names: list[str], what: str, path: str, document: Document) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(path, f"{count} {what}s are called {name}; identifiers must differ", None)


def _from_schema(error: ValidationError, document: Document) -> Problem:
    return _problem(_place_of(error), in_words(error), document)


def _place_of(error: ValidationError) -> Path:
    """Where it is written: at the key that does not belong there, else at what is wrong."""
    return (*error.absolute_path, *unknown_keys(error)[:1])


def _problem(path: Path, message: str, document: Document) -> Problem:
    place = ".".join(map(str, path))
    return Problem(place, message, document.line_of(path), document.column_of(path))
