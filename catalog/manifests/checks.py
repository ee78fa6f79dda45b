"""Validation of a manifest against the AWS model and rules, with file, path and line of each problem."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aws.shapes import get_input_shape, is_document_shape
from aws.validation.parameters import convert_parameter, remove_nulls, validate_parameters
from aws.validation.problems import ParameterPath, ShapeProblem, format_path
from aws.validation.rules import compatibility
from aws.validation.shape_checks import is_expression
from catalog.manifests.documents import Document, iterate_scalars
from catalog.manifests.kinds import MANIFEST_KINDS, SERVICE_DEFINITION, ManifestKind, find_wrapper_key
from steps.expressions import describe_secret_problem, find_paths

TARGET_GROUP_KEY = "targetGroupArn"


def list_strategy_problems(definition: Mapping[str, Any]) -> Iterator[ShapeProblem]:
    """Yield the settings that no step can deploy."""
    controller = _get_mapping(definition, "deploymentController").get("type", "ECS")
    if _is_unsupported_choice(controller, "ECS"):
        message = (
            f"the {controller} deployment controller is not supported. Remove "
            "deploymentController, or deploy this ECS service with that controller"
        )
        yield ShapeProblem(("deploymentController", "type"), message)


def list_daemon_problems(definition: Mapping[str, Any]) -> Iterator[ShapeProblem]:
    """Yield a scheduling strategy that only the step EcsRollingDeploy deploys."""
    scheduling = definition.get("schedulingStrategy", "REPLICA")
    if _is_unsupported_choice(scheduling, "REPLICA"):
        message = (
            f"{scheduling} runs one task on each container instance: there is neither a count nor a second "
            "version to give traffic to. Deploy this service with the step EcsRollingDeploy, or use "
            "schedulingStrategy REPLICA"
        )
        yield ShapeProblem(("schedulingStrategy",), message)


def list_native_problems(definition: Mapping[str, Any]) -> Iterator[ShapeProblem]:
    """Yield the strategy that ECS runs itself, which only the step EcsNativeDeploy follows."""
    strategy = get_native_strategy(definition)
    if strategy:
        message = (
            f"ECS runs {strategy} deployments itself. Deploy this service with the step EcsNativeDeploy, or "
            "set deploymentConfiguration.strategy to ROLLING for the other steps"
        )
        yield ShapeProblem(("deploymentConfiguration", "strategy"), message)


def get_native_strategy(definition: Mapping[str, Any]) -> str:
    """Return the strategy by which ECS itself shifts the traffic, "" for others and for expressions."""
    strategy = _get_mapping(definition, "deploymentConfiguration").get("strategy", "ROLLING")
    return strategy if _is_unsupported_choice(strategy, "ROLLING") else ""


def list_blue_green_problems(definition: Mapping[str, Any]) -> Iterator[ShapeProblem]:
    """Yield the settings that prevent a blue/green deployment, before expressions are resolved."""
    breaker = _get_mapping(_get_mapping(definition, "deploymentConfiguration"), "deploymentCircuitBreaker")
    if breaker.get("enable") is True:
        message = (
            "is for rolling and canary deployments. In blue/green deployments Slipway rolls back to the "
            "previous version, which keeps running. Remove deploymentCircuitBreaker"
        )
        yield ShapeProblem(("deploymentConfiguration", "deploymentCircuitBreaker"), message)
    balancers = definition.get("loadBalancers")
    if not is_expression(balancers) and TARGET_GROUP_KEY not in {
        path for _, path in find_paths(balancers or [])
    }:
        message = (
            f"has no target group <+{TARGET_GROUP_KEY}>. Add `{TARGET_GROUP_KEY}: "
            f"<+{TARGET_GROUP_KEY}>` under loadBalancers, with containerName and containerPort. A fixed "
            "target group would receive production traffic in every second deployment"
        )
        yield ShapeProblem(("loadBalancers",) if "loadBalancers" in definition else (), message)


def _get_mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    mapping = value.get(key)
    return mapping if isinstance(mapping, Mapping) else {}


def _is_unsupported_choice(value: Any, usual: str) -> bool:
    """Return whether a setting has another value than the supported one."""
    return isinstance(value, str) and bool(value) and not is_expression(value) and value != usual


SpellingLookup = Callable[[ParameterPath], str | None]


def convert_values(shape: Any, value: Any, spelling_of: SpellingLookup) -> tuple[Any, list[ShapeProblem]]:
    """Return a value converted to AWS types, with a warning for each number that became text.

    `spelling_of` returns the source text of the number at a path if Python would print it differently: 012,
    1.10. Empty text for an enum, as PipeCD writes pidMode, counts as not set.
    """
    notes: list[ShapeProblem] = []
    return _convert_value(shape, value, (), spelling_of, notes), notes


def _convert_value(
    shape: Any, value: Any, path: ParameterPath, spelling_of: SpellingLookup, notes: list[ShapeProblem]
) -> Any:
    if is_document_shape(shape):
        return value
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        return {
            key: _convert_value(shape.members[key], inner, (*path, key), spelling_of, notes)
            if key in shape.members
            else inner
            for key, inner in _skip_empty_choices(shape, value)
        }
    if kind == "map" and isinstance(value, Mapping):
        return {
            key: _convert_value(shape.value, inner, (*path, key), spelling_of, notes)
            for key, inner in value.items()
        }
    if kind == "list" and isinstance(value, list):
        return [
            _convert_value(shape.member, item, (*path, n), spelling_of, notes) for n, item in enumerate(value)
        ]
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        text = spelling_of(path) or str(value)
        notes.append(ShapeProblem(path, f'the number is sent as text "{text}"', is_warning=True))
        return text
    return value


def _skip_empty_choices(shape: Any, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        member = shape.members.get(key)
        if inner != "" or "" in (getattr(member, "enum", None) or [""]):
            yield key, inner


_DAEMON_MESSAGE = (
    "belongs to the definition of a daemon of managed instances, which no step deploys. Update the daemon in "
    "AWS with aws ecs update-daemon"
)
_EXPRESS_MESSAGE = (
    "belongs to the definition of an Express service, which ECS itself deploys. Use aws ecs "
    "update-express-gateway-service"
)
# Keys of definitions beside that of CreateService, which no step deploys.
_FOREIGN_KEYS: Mapping[str, str] = {
    "daemonName": _DAEMON_MESSAGE,
    "daemonTaskDefinitionArn": _DAEMON_MESSAGE,
    "infrastructureRoleArn": _EXPRESS_MESSAGE,
    "primaryContainer": _EXPRESS_MESSAGE,
}
CLEANUP_ADVICE = "Clean up, in the editor, does that"
# Spellings of deploymentConfiguration in the command line and in copied responses (T11).
_CONFIGURATION_KEYS = ("deployment-configuration", "deploymentConfiguration")
_ADVICE_ON_SECRETS = (
    "Let the container read it by secrets with valueFrom, from Secrets Manager or Parameter Store."
)
_LONE_EXPRESSION = re.compile(r"<\+[^<>]*>\Z")


@dataclass(frozen=True)
class ManifestProblem:
    """A problem of a manifest and its position."""

    file: str
    path: str
    line: int | None
    message: str
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.path}: {self.message}"


@dataclass(frozen=True)
class CheckedManifest:
    """The result of a check: the request to send, errors (AWS would reject), warnings (AWS would ignore)."""

    value: dict[str, Any]
    problems: tuple[ManifestProblem, ...] = ()
    warnings: tuple[ManifestProblem, ...] = ()


def check_manifest(kind: str, document: Document) -> CheckedManifest:
    """Check one manifest; unresolved expressions count as valid.

    The checked value is the request to send: without nulls (R166), with AWS's key names, without keys that a
    deployment sets itself (R167).
    """
    definition = MANIFEST_KINDS[kind]
    if not isinstance(document.value, Mapping):
        message = f"a {kind} is a mapping of keys to values, not a {type(document.value).__name__}"
        return CheckedManifest({}, (_build_problem(document, (), message),))
    shape = get_input_shape(definition.service, definition.operation)
    value = _normalize_keys(remove_nulls(_convert_expressions(definition, document)), shape)
    value, notes = convert_values(shape, value, lambda path: _get_spelling(document, path))
    if wrapped := _find_wrapper_problem(definition, value):
        return CheckedManifest(value, (_build_problem(document, wrapped.path, wrapped.message),))
    if kind == SERVICE_DEFINITION and (key := next((key for key in _FOREIGN_KEYS if key in value), "")):
        return CheckedManifest(value, (_build_problem(document, (key,), _FOREIGN_KEYS[key]),))
    ignored = [key for key in definition.ignored if key in value]
    request = {key: inner for key, inner in value.items() if key not in definition.ignored}
    problems = validate_parameters(
        definition.service, definition.operation, {**definition.filled_in, **request}
    )
    problems = [_add_hint(definition, request, problem) for problem in (*problems, *_find_secrets(request))]
    problems += list_strategy_problems(request) if kind == SERVICE_DEFINITION else ()
    problems += [_build_ignored_warning(definition, key) for key in ignored]
    problems += [note for note in notes if note.path[0] not in definition.ignored]
    return _build_checked_manifest(document, request, problems)


def check_deployable(
    document: Document,
    *,
    is_blue_green: bool = False,
    is_classic: bool = False,
    is_only_rolling: bool = True,
) -> tuple[ManifestProblem, ...]:
    """Return the reasons why a service definition with unresolved expressions could never be deployed.

    `is_classic` for a stage that deploys with other steps than EcsNativeDeploy, `is_only_rolling` for one
    that deploys with none but EcsRollingDeploy.
    """
    value = remove_nulls(document.value)
    if not isinstance(value, Mapping):
        return ()
    problems = [*list_strategy_problems(value), *(list_blue_green_problems(value) if is_blue_green else ())]
    problems += list_native_problems(value) if is_classic else ()
    problems += () if is_only_rolling else list_daemon_problems(value)
    return _build_checked_manifest(document, dict(value), problems).problems


def check_with_task_definition(
    service_definition: Document, task_definition: Mapping[str, Any]
) -> CheckedManifest:
    """Check that a service definition fits a task definition; positions refer to the service definition."""
    value = remove_nulls(service_definition.value)
    return _build_checked_manifest(
        service_definition, value, compatibility.validate_compatibility(value, remove_nulls(task_definition))
    )


def _build_checked_manifest(
    document: Document, value: dict[str, Any], shape_problems: Iterable[ShapeProblem]
) -> CheckedManifest:
    listed = [
        (
            shape_problem,
            _build_problem(document, _get_problem_path(document, shape_problem), shape_problem.message),
        )
        for shape_problem in shape_problems
    ]
    listed.sort(key=lambda pair: pair[1].line or 0)
    return CheckedManifest(
        value,
        tuple(problem for shape_problem, problem in listed if not shape_problem.is_warning),
        tuple(problem for shape_problem, problem in listed if shape_problem.is_warning),
    )


def _get_spelling(document: Document, path: ParameterPath) -> str | None:
    return document.number_texts.get(_restore_spelling(document.value, path))


def _get_problem_path(document: Document, problem: ShapeProblem) -> ParameterPath:
    """Return the path to report a problem at; a key that an override removed still has a line."""
    removed = (*problem.path, problem.missing)
    return removed if problem.missing and removed in document.lines else problem.path


def _build_problem(document: Document, path: ParameterPath, message: str) -> ManifestProblem:
    spelled_path = _restore_spelling(document.value, path)
    place = format_path(spelled_path) or "document"
    return ManifestProblem(
        document.get_file_name(spelled_path),
        place,
        document.get_line(spelled_path),
        message,
        document.get_column(spelled_path),
    )


def _find_wrapper_problem(kind: ManifestKind, value: Mapping[str, Any]) -> ShapeProblem | None:
    """Find the wrapper of a copied AWS response (R168)."""
    if not (key := find_wrapper_key(kind, value)):
        return None
    type_name = "array" if isinstance(value[key], list) else "object"
    message = f'remove the "{key}" {type_name}, which is part of the AWS response'
    return ShapeProblem((key,), f"{message}; the definition itself belongs at the top. {CLEANUP_ADVICE}")


def list_secret_problems(document: Document) -> Iterator[ManifestProblem]:
    """Yield the secrets that a manifest of any kind references, with their paths."""
    return (_build_problem(document, secret.path, secret.message) for secret in _find_secrets(document.value))


def _find_secrets(value: Any) -> Iterator[ShapeProblem]:
    """Find secret references; manifests may not use them, because AWS stores definitions in plain text."""
    for path, text in iterate_scalars(value):
        if isinstance(text, str) and (message := describe_secret_problem(text, _ADVICE_ON_SECRETS)):
            yield ShapeProblem(path, message)


def _add_hint(kind: ManifestKind, value: Mapping[str, Any], problem: ShapeProblem) -> ShapeProblem:
    key = problem.path[0] if len(problem.path) == 1 else None
    if (
        kind.operation == "CreateService"
        and key in _CONFIGURATION_KEYS
        and isinstance(value.get(str(key)), str)
    ):
        message = (
            "is a text of the command line: write deploymentConfiguration as a mapping, with "
            "deploymentCircuitBreaker: {enable: true, rollback: true}"
        )
        return ShapeProblem(problem.path, message)
    if problem.is_unknown_key and len(problem.path) == 1 and problem.path[0] in kind.answered:
        fault = f'"{problem.path[0]}" is part of an AWS response, not of a {kind.operation} request'
        return ShapeProblem(problem.path, f"{fault}; remove it. {CLEANUP_ADVICE}")
    if problem.missing == "serviceName" and not problem.path:
        message = f"{problem.message}. Clean up, in the editor, sets the name of the Slipway service"
        return replace(problem, message=message)
    return problem


def _build_ignored_warning(kind: ManifestKind, key: str) -> ShapeProblem:
    return ShapeProblem((key,), f"is ignored: Slipway takes {kind.ignored[key]}", is_warning=True)


def _convert_expressions(kind: ManifestKind, document: Document) -> Any:
    """Convert each value that consists of one expression to the type that AWS expects at its path."""
    value = document.value
    for path, text in iterate_scalars(document.written):
        if isinstance(text, str) and _LONE_EXPRESSION.match(text):
            value = _convert_at_path(value, path, kind, path)
    return value


def _convert_at_path(value: Any, path: ParameterPath, kind: ManifestKind, whole: ParameterPath) -> Any:
    if not path:
        return convert_parameter(kind.service, kind.operation, _capitalize_path(kind, whole), value)
    key, tail = path[0], path[1:]
    if isinstance(value, Mapping) and key in value:
        return {**value, key: _convert_at_path(value[key], tail, kind, whole)}
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return [*value[:key], _convert_at_path(value[key], tail, kind, whole), *value[key + 1 :]]
    return value


def _capitalize_path(kind: ManifestKind, path: ParameterPath) -> ParameterPath:
    if kind.service == "ecs":
        return path
    return tuple(part[:1].upper() + part[1:] if isinstance(part, str) else part for part in path)


def _normalize_keys(value: Any, shape: Any) -> Any:
    """Return the value with the model's keys: the reference writes those of auto scaling in lower case
    (R256).
    """
    if shape.type_name == "structure" and isinstance(value, Mapping):
        return dict(_normalize_members(value, shape.members))
    if shape.type_name == "list" and isinstance(value, list):
        return [_normalize_keys(inner, shape.member) for inner in value]
    return value


def _normalize_members(value: Mapping[str, Any], members: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        spelled = key[:1].upper() + key[1:]
        if key not in members and spelled in members and spelled not in value:
            key = spelled
        yield key, _normalize_keys(inner, members[key]) if key in members else inner


def _restore_spelling(value: Any, path: ParameterPath) -> ParameterPath:
    """Return a path with the author's key names."""
    spelling: list[str | int] = []
    for part in path:
        if isinstance(value, Mapping) and isinstance(part, str) and part not in value:
            lower = part[:1].lower() + part[1:]
            part = lower if lower in value else part
        spelling.append(part)
        value = _get_child(value, part)
    return tuple(spelling)


def _get_child(value: Any, part: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None
