"""Schemas of the answers to delegate tasks, one for each kind: what does not fit ends its task as failed."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from aws.results import result_fault, type_words
from delegates.agent.executors.aws import FETCH_OBJECTS
from delegates.models import DelegateTask, TaskAttempt
from delegates.owners import BAD_ANSWER, Answer
from delegates.protocol.happenings import called

SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"
PLACE_CHARACTERS = 200


class Schema(BaseModel):
    """What an answer of one kind holds; newer agents may say more."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)

    @property
    def is_good(self) -> bool:
        """Whether this is the result of work that succeeded."""
        return True


class Failure(Schema):
    """Why a task failed: an `AwsError` record, `capability` where this delegate cannot do it."""

    kind: str | None = None
    code: str | None = None
    message: str | None = None
    service: str | None = None
    operation: str | None = None
    capability: bool | None = None
    host_key: str | None = None


class AnyResult(Schema):
    """The result of an AWS call: botocore's models say more of it."""


class Checked(Schema):
    """The result of a check of an address."""

    ok: bool = True
    address: str = ""


class ScriptResult(Schema):
    """How a script ended, and the variables that it was to hand on."""

    exit_code: int
    outputs: dict[str, str] = {}
    written: str | None = None

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0


class TerraformOutput(Schema):
    """One output of a configuration."""

    value: Any
    is_secret: bool


class TerraformResult(Schema):
    """How a run of Terraform ended; `ended` is empty where the program came to its own end."""

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


class HttpResult(Schema):
    """What an address answered."""

    status: int
    headers: dict[str, str] = {}
    body: str = ""


class FilesResult(Schema):
    """Files of one commit."""

    commit: str
    files: dict[str, str]
    host_key: str | None = None


class RefsResult(Schema):
    """The names of branches and tags."""

    branches: list[str]
    tags: list[str]
    host_key: str | None = None


class ObjectsResult(Schema):
    """Files of a bucket."""

    files: dict[str, str]
    versions: dict[str, str]


class TagsResult(Schema):
    """The tags of a repository; `is_cut` where it has more."""

    tags: list[str]
    is_cut: bool = False


class DigestResult(Schema):
    """The digest of one tag."""

    digest: str


class Repository(Schema):
    """One repository of a registry."""

    repositoryName: str


class CatalogResult(Schema):
    """The repositories of a registry; `is_cut` where it has more."""

    repositories: list[Repository]
    is_cut: bool = False


Kind = DelegateTask.Kind
_SCHEMAS: Mapping[tuple[str, str], type[Schema]] = {
    (Kind.AWS, ":".join(FETCH_OBJECTS)): ObjectsResult,
    (Kind.SHELL, ""): ScriptResult,
    (Kind.TERRAFORM, ""): TerraformResult,
    (Kind.HTTP, ""): HttpResult,
    (Kind.GIT, "files"): FilesResult,
    (Kind.GIT, "refs"): RefsResult,
    (Kind.DOCKER_REGISTRY, "tags"): TagsResult,
    (Kind.DOCKER_REGISTRY, "digest"): DigestResult,
    (Kind.DOCKER_REGISTRY, "catalog"): CatalogResult,
    (Kind.DOCKER_REGISTRY, "greeting"): Checked,
    (Kind.CHECK, ""): Checked,
}
# The work was done and went wrong: its result says how.
_HAS_RUN = ("ScriptFailed", "ProgramFailed")


def asked_of(kind: str, params: Mapping[str, Any]) -> str:
    """What exactly a task asks for, where its kind alone does not say which answer fits."""
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


def check_answer(attempt: TaskAttempt, answer: Answer) -> Answer:
    """The answer, or in place of one that does not fit the failure that says what is wrong with it."""
    kind = attempt.task.kind
    fault = _failure_fault(answer) or _result_fault(kind, attempt.asked, answer)
    if not fault:
        return answer
    who = "The delegate" if attempt.instance is None else f"The delegate {attempt.instance.delegate.name}"
    where = "" if attempt.instance is None else f" on {called(attempt.instance)}"
    what = f"{Kind(kind).label} ({attempt.asked})" if attempt.asked else str(Kind(kind).label)
    message = f"{who}{where} gave an answer that does not fit the task: {what}. {fault}. Upgrade its agent."
    error = {"kind": "TaskError", "code": BAD_ANSWER, "message": message, "capability": False}
    return Answer(FAILED, None, error, answer.duration_ms)


def _failure_fault(answer: Answer) -> str:
    return "" if answer.error is None else _read(Failure, answer.error, "error")[0]


def _result_fault(kind: str, asked: str, answer: Answer) -> str:
    has_run = answer.status == FAILED and (answer.error or {}).get("code") in _HAS_RUN
    if answer.result is None and not has_run and answer.status != SUCCEEDED:
        return ""
    fault, result = _read(_SCHEMAS.get((kind, asked), AnyResult), answer.result, "result")
    if fault or result is None:
        return fault
    if answer.status == SUCCEEDED and not result.is_good:
        return "status is SUCCEEDED, and result says that the work failed"
    if has_run and result.is_good:
        return "status is FAILED, and result says that the work succeeded"
    if kind != Kind.AWS:
        return ""
    service, _, operation = asked.partition(":")
    return result_fault(service, operation, answer.result or {})


def _read(schema: type[Schema], value: Any, name: str) -> tuple[str, Schema | None]:
    """What does not fit, with its place; where everything fits, what was read."""
    if not isinstance(value, Mapping):
        return f"{name} must be an object, and is {type_words(value)}", None
    try:
        return "", schema.model_validate(dict(value))
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
    place = _shown(".".join(str(part) for part in (name, *first["loc"])))
    if first["type"] == "missing":
        return f"{place} is missing", None
    words = _WORDS.get(first["type"], "something else")
    return f"{place} must be {words}, and is {type_words(first['input'])}", None


def _shown(place: str) -> str:
    """A place whose names the agent made up."""
    return "".join(one if one.isprintable() else "\ufffd" for one in place[:PLACE_CHARACTERS])


_WORDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "list_type": "a list",
    "model_type": "an object",
}
