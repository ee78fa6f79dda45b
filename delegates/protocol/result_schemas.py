"""Schemas of task results by kind; an invalid result fails its task."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from aws.validation.shape_checks import describe_json_type, find_result_problem
from delegates.agent.executors.aws import FETCH_OBJECTS
from delegates.models import DelegateTask, TaskAttempt
from delegates.protocol.events import get_instance_label
from delegates.task_owners import BAD_ANSWER, TaskAnswer

SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"
MAX_PATH_LENGTH = 200


class ResultSchema(BaseModel):
    """Schema of one kind's results; newer agents may add fields."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)

    @property
    def is_good(self) -> bool:
        """Return whether this is the result of work that succeeded."""
        return True


class FailureSchema(ResultSchema):
    """Failure of a task: an `AwsError` record; `capability` names a missing capability of the delegate."""

    kind: str | None = None
    code: str | None = None
    message: str | None = None
    service: str | None = None
    operation: str | None = None
    capability: bool | None = None
    host_key: str | None = None


class AnyResult(ResultSchema):
    """Result of an AWS call, which botocore's models validate."""


class CheckResult(ResultSchema):
    """The result of a check of an address."""

    ok: bool = True
    address: str = ""


class DoctorFinding(ResultSchema):
    """Finding of one check of a diagnosis."""

    check: str
    result: Literal["ok", "warning", "failed", "skipped"]
    message: str
    fix: str = ""


class DoctorResult(ResultSchema):
    """The result of a diagnosis."""

    findings: list[DoctorFinding]


class ScriptResult(ResultSchema):
    """Result of a script, with its output variables."""

    exit_code: int
    outputs: dict[str, str] = {}
    written: str | None = None

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0


class TerraformOutput(ResultSchema):
    """One output of a configuration."""

    value: Any
    is_secret: bool


class TerraformResult(ResultSchema):
    """Result of a Terraform run; `ended` is empty if the program exited by itself."""

    exit_code: int
    ended: str = ""
    command: str = ""
    begun: bool = False
    holds_resources: bool | None = None
    errors: list[str] = []
    lock_id: str = ""
    counts: dict[str, int] = {}
    outputs: dict[str, TerraformOutput] = {}
    plan: str = ""
    lock: str = ""
    words: str = ""

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0 and not self.ended


class HttpResult(ResultSchema):
    """Response of an HTTP address."""

    status: int
    headers: dict[str, str] = {}
    body: str = ""


class FilesResult(ResultSchema):
    """Files of one commit."""

    commit: str
    files: dict[str, str]
    host_key: str | None = None


class RefsResult(ResultSchema):
    """The names of branches and tags."""

    branches: list[str]
    tags: list[str]
    host_key: str | None = None


class ObjectsResult(ResultSchema):
    """Files of a bucket."""

    files: dict[str, str]
    versions: dict[str, str]


class TagsResult(ResultSchema):
    """Tags of a repository; `is_cut` above the limit."""

    tags: list[str]
    is_cut: bool = False


class DigestResult(ResultSchema):
    """The digest of one tag."""

    digest: str


class RepositoryResult(ResultSchema):
    """One repository of a registry."""

    repositoryName: str


class CatalogResult(ResultSchema):
    """Repositories of a registry; `is_cut` above the limit."""

    repositories: list[RepositoryResult]
    is_cut: bool = False


Kind = DelegateTask.Kind
_SCHEMAS: Mapping[tuple[str, str], type[ResultSchema]] = {
    (Kind.AWS, ":".join(FETCH_OBJECTS)): ObjectsResult,
    (Kind.SHELL, ""): ScriptResult,
    (Kind.TERRAFORM, ""): TerraformResult,
    (Kind.HTTP, ""): HttpResult,
    (Kind.GIT, "files"): FilesResult,
    (Kind.GIT, "refs"): RefsResult,
    (Kind.DOCKER_REGISTRY, "tags"): TagsResult,
    (Kind.DOCKER_REGISTRY, "digest"): DigestResult,
    (Kind.DOCKER_REGISTRY, "catalog"): CatalogResult,
    (Kind.DOCKER_REGISTRY, "greeting"): CheckResult,
    (Kind.CHECK, ""): CheckResult,
    (Kind.DOCTOR, ""): DoctorResult,
}
# The work was done and failed: its result has the reason.
_HAS_RUN = ("ScriptFailed", "ProgramFailed")


def get_result_variant(kind: str, params: Mapping[str, Any]) -> str:
    """Return the variant of a task for a kind with several schemas."""
    if kind == Kind.AWS:
        return f"{params.get('service', '')}:{params.get('operation', '')}"
    if kind == Kind.GIT:
        return "refs" if params.get("refs") else "files"
    if kind != Kind.DOCKER_REGISTRY:
        return ""
    if params.get("catalog"):
        return "catalog"
    if params.get("tag"):
        return "digest"
    return "tags" if params.get("repository") else "greeting"


def validate_answer(attempt: TaskAttempt, answer: TaskAnswer) -> TaskAnswer:
    """Return the answer, or a failure that describes the invalid field."""
    kind = attempt.task.kind
    fault = _find_failure_fault(answer) or _find_result_fault(kind, attempt.variant, answer)
    if not fault:
        return answer
    sender = "The delegate" if attempt.instance is None else f"The delegate {attempt.instance.delegate.name}"
    instance = "" if attempt.instance is None else f" on {get_instance_label(attempt.instance)}"
    label = f"{Kind(kind).label} ({attempt.variant})" if attempt.variant else str(Kind(kind).label)
    mismatch = f"{sender}{instance} returned a result that does not match the task: {label}."
    message = f"{mismatch} {fault}. Upgrade its agent."
    error = {"kind": "TaskError", "code": BAD_ANSWER, "message": message, "capability": False}
    return TaskAnswer(FAILED, None, error, answer.duration_ms)


def _find_failure_fault(answer: TaskAnswer) -> str:
    return "" if answer.error is None else _validate_schema(FailureSchema, answer.error, "error")[0]


def _find_result_fault(kind: str, variant: str, answer: TaskAnswer) -> str:
    has_run = answer.status == FAILED and (answer.error or {}).get("code") in _HAS_RUN
    if answer.result is None and not has_run and answer.status != SUCCEEDED:
        return ""
    fault, result = _validate_schema(_SCHEMAS.get((kind, variant), AnyResult), answer.result, "result")
    if fault or result is None:
        return fault
    if answer.status == SUCCEEDED and not result.is_good:
        return "status is SUCCEEDED, and result says that the work failed"
    if has_run and result.is_good:
        return "status is FAILED, and result says that the work succeeded"
    if kind != Kind.AWS:
        return ""
    service, _, operation = variant.partition(":")
    return find_result_problem(service, operation, answer.result or {})


def _validate_schema(schema: type[ResultSchema], value: Any, name: str) -> tuple[str, ResultSchema | None]:
    """Return the validation error with its path, or the validated result."""
    if not isinstance(value, Mapping):
        return f"{name} must be an object, and is {describe_json_type(value)}", None
    try:
        return "", schema.model_validate(dict(value))
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
    place = _redact_path(".".join(str(part) for part in (name, *first["loc"])))
    if first["type"] == "missing":
        return f"{place} is missing", None
    words = _TYPE_WORDS.get(first["type"], "something else")
    return f"{place} must be {words}, and is {describe_json_type(first['input'])}", None


def _redact_path(place: str) -> str:
    """Return a path without names that the agent chose."""
    return "".join(
        character if character.isprintable() else "\ufffd" for character in place[:MAX_PATH_LENGTH]
    )


_TYPE_WORDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "list_type": "a list",
    "model_type": "an object",
}
