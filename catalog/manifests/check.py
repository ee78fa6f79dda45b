"""Checks a manifest against AWS's model and rules before anything is written, naming file, path and line."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aws.problems import Path, ShapeProblem, place_of
from aws.rules import together
from aws.shapes import input_shape
from aws.validation import fitted, problems, without_nulls
from catalog.manifests.deployable import blue_green_problems, strategy_problems
from catalog.manifests.document import Document, values_of
from catalog.manifests.fitting import fitted_values
from catalog.manifests.kinds import KINDS, SERVICE_DEFINITION, Kind, wrapper_of
from steps.variables import secret_problem

CLEAN_UP = "Clean up, in the editor, does that"
# How the command line and copied answers spell what belongs in deploymentConfiguration (T11).
_CONFIGURATION = ("deployment-configuration", "deploymentConfiguration")
_FROM_AWS = "Let the container read it by secrets with valueFrom, from Secrets Manager or Parameter Store."
_LONE_EXPRESSION = re.compile(r"<\+[^<>]*>\Z")


@dataclass(frozen=True)
class ManifestProblem:
    """One thing wrong with a manifest, and where it is written."""

    file: str
    path: str
    line: int | None
    message: str
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.path}: {self.message}"


@dataclass(frozen=True)
class CheckedManifest:
    """What came of a check: the request to send, what AWS would refuse, what it would ignore."""

    value: dict[str, Any]
    problems: tuple[ManifestProblem, ...] = ()
    warnings: tuple[ManifestProblem, ...] = ()


def check_manifest(kind: str, document: Document) -> CheckedManifest:
    """Check one manifest. Expressions may be filled in already; those that are not count as right.

    The checked value is what to send: without nulls (R166), in AWS's spelling, without what a deployment
    decides itself (R167).
    """
    known = KINDS[kind]
    if not isinstance(document.value, Mapping):
        message = f"a {kind} is a mapping of keys to values, not a {type(document.value).__name__}"
        return CheckedManifest({}, (_at(document, (), message),))
    shape = input_shape(known.service, known.operation)
    value = _spelled(without_nulls(_fitted(known, document)), shape)
    value, notes = fitted_values(shape, value, lambda path: _spelling(document, path))
    if wrapped := _wrapper(known, value):
        return CheckedManifest(value, (_at(document, wrapped.path, wrapped.message),))
    ignored = [key for key in known.ignored if key in value]
    request = {key: inner for key, inner in value.items() if key not in known.ignored}
    found = problems(known.service, known.operation, {**known.filled_in, **request})
    found = [_hinted(known, request, one) for one in (*found, *_secrets(request))]
    found += strategy_problems(request) if kind == SERVICE_DEFINITION else ()
    found += [_ignored(known, key) for key in ignored]
    found += [note for note in notes if note.path[0] not in known.ignored]
    return _checked(document, request, found)


def check_deployable(document: Document, *, is_blue_green: bool) -> tuple[ManifestProblem, ...]:
    """Return why a service definition, its expressions not filled in, could never be deployed."""
    value = without_nulls(document.value)
    if not isinstance(value, Mapping):
        return ()
    found = [*strategy_problems(value), *(blue_green_problems(value) if is_blue_green else ())]
    return _checked(document, dict(value), found).problems


def check_together(service_definition: Document, task_definition: Mapping[str, Any]) -> CheckedManifest:
    """Check that a service definition goes with a task definition; places are the service definition's."""
    value = without_nulls(service_definition.value)
    return _checked(service_definition, value, together.problems(value, without_nulls(task_definition)))


def _checked(document: Document, value: dict[str, Any], found: Iterable[ShapeProblem]) -> CheckedManifest:
    listed = [(one, _at(document, _told_at(document, one), one.message)) for one in found]
    listed.sort(key=lambda pair: pair[1].line or 0)
    return CheckedManifest(
        value,
        tuple(problem for one, problem in listed if not one.is_warning),
        tuple(problem for one, problem in listed if one.is_warning),
    )


def _spelling(document: Document, path: Path) -> str | None:
    return document.spellings.get(_as_written(document.value, path))


def _told_at(document: Document, problem: ShapeProblem) -> Path:
    """Where to tell a problem: a key that an override took out still has its line."""
    removed = (*problem.path, problem.missing)
    return removed if problem.missing and removed in document.lines else problem.path


def _at(document: Document, path: Path, message: str) -> ManifestProblem:
    written = _as_written(document.value, path)
    place = place_of(written) or "document"
    return ManifestProblem(
        document.name_of(written), place, document.line_of(written), message, document.column_of(written)
    )


def _wrapper(kind: Kind, value: Mapping[str, Any]) -> ShapeProblem | None:
    """Finds the wrapping of a copied AWS answer (R168)."""
    if not (key := wrapper_of(kind, value)):
        return None
    what = "array" if isinstance(value[key], list) else "object"
    message = f'remove the "{key}" {what}, which comes from copying what AWS answers'
    return ShapeProblem((key,), f"{message}; the definition itself belongs at the top. {CLEAN_UP}")


def secret_problems(document: Document) -> Iterator[ManifestProblem]:
    """Yield the secrets that a manifest of any kind names, with their places."""
    return (_at(document, one.path, one.message) for one in _secrets(document.value))


def _secrets(value: Any) -> Iterator[ShapeProblem]:
    """Secrets, which no manifest takes: AWS and whoever may read a definition would have them."""
    for path, text in values_of(value):
        if isinstance(text, str) and (message := secret_problem(text, _FROM_AWS)):
            yield ShapeProblem(path, message)


def _hinted(kind: Kind, value: Mapping[str, Any], problem: ShapeProblem) -> ShapeProblem:
    key = problem.path[0] if len(problem.path) == 1 else None
    if kind.operation == "CreateService" and key in _CONFIGURATION and isinstance(value.get(str(key)), str):
        message = (
            "is a text of the command line: write deploymentConfiguration as a mapping, with "
            "deploymentCircuitBreaker: {enable: true, rollback: true}"
        )
        return ShapeProblem(problem.path, message)
    if problem.is_unknown_key and len(problem.path) == 1 and problem.path[0] in kind.answered:
        what = f'"{problem.path[0]}" is part of what AWS answers, not of a {kind.operation} request'
        return ShapeProblem(problem.path, f"{what}; remove it. {CLEAN_UP}")
    if problem.missing == "serviceName" and not problem.path:
        message = f"{problem.message}. Clean up, in the editor, fills in the name of the service in Slipway"
        return replace(problem, message=message)
    return problem


def _ignored(kind: Kind, key: str) -> ShapeProblem:
    return ShapeProblem((key,), f"is ignored: Slipway takes {kind.ignored[key]}", is_warning=True)


def _fitted(kind: Kind, document: Document) -> Any:
    """The value, where an expression stood alone with the type that its place wants."""
    value = document.value
    for path, text in values_of(document.written):
        if isinstance(text, str) and _LONE_EXPRESSION.match(text):
            value = _changed(value, path, kind, path)
    return value


def _changed(value: Any, path: Path, kind: Kind, whole: Path) -> Any:
    if not path:
        return fitted(kind.service, kind.operation, _in_models_spelling(kind, whole), value)
    key, rest = path[0], path[1:]
    if isinstance(value, Mapping) and key in value:
        return {**value, key: _changed(value[key], rest, kind, whole)}
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return [*value[:key], _changed(value[key], rest, kind, whole), *value[key + 1 :]]
    return value


def _in_models_spelling(kind: Kind, path: Path) -> Path:
    if kind.service == "ecs":
        return path
    return tuple(part[:1].upper() + part[1:] if isinstance(part, str) else part for part in path)


def _spelled(value: Any, shape: Any) -> Any:
    """The value with the model's keys: the reference writes those of auto scaling in lower case (R256)."""
    if shape.type_name == "structure" and isinstance(value, Mapping):
        return dict(_spelled_members(value, shape.members))
    if shape.type_name == "list" and isinstance(value, list):
        return [_spelled(inner, shape.member) for inner in value]
    return value


def _spelled_members(value: Mapping[str, Any], members: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        spelled = key[:1].upper() + key[1:]
        if key not in members and spelled in members and spelled not in value:
            key = spelled
        yield key, _spelled(inner, members[key]) if key in members else inner


def _as_written(value: Any, path: Path) -> Path:
    """The path in the author's spelling."""
    written: list[str | int] = []
    for part in path:
        if isinstance(value, Mapping) and isinstance(part, str) and part not in value:
            lower = part[:1].lower() + part[1:]
            part = lower if lower in value else part
        written.append(part)
        value = _inside(value, part)
    return tuple(written)


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None
