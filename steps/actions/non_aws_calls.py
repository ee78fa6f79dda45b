"""Calls of actions that are not AWS calls: scripts, HTTP, files, Terraform."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from aws.operations import is_write

DELEGATE_SERVICE = "delegate"
RUN_SCRIPT, SEND_REQUEST, FETCH_FILES = "RunScript", "SendRequest", "FetchFiles"
RUN_TERRAFORM = "RunTerraform"
LIST_TAGS, FIND_DIGEST = "ListTags", "FindDigest"
CALL_TERRAFORM_CLOUD, READ_TERRAFORM_LOG = "AskTerraformCloud", "ReadTerraformLog"
# A read of AWS for another stage than the step's own, by that stage's connector.
READ_AWS = "ReadAws"
# A read of Slipway's own records, which no delegate answers.
FIND_CONNECTIONS = "FindDelegateConnections"
_READ_OPERATIONS = (FETCH_FILES, LIST_TAGS, FIND_DIGEST, READ_TERRAFORM_LOG, READ_AWS, FIND_CONNECTIONS)
_READ_METHODS = ("GET", "HEAD")


def is_write_call(service: str, operation: str, params: Mapping[str, Any]) -> bool:
    """Return whether a call may change something: by name for AWS, by method for HTTP, always for scripts."""
    if service != DELEGATE_SERVICE:
        return is_write(service, operation)
    if operation in (SEND_REQUEST, CALL_TERRAFORM_CLOUD):
        return str(params.get("method") or "GET").upper() not in _READ_METHODS
    return operation not in _READ_OPERATIONS


class NonAwsCaller(Protocol):
    """Caller that takes service, operation and parameters."""

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Script:
    """A script with its environment and the names of its output variables.

    `secrets` names further variables, each with the reference of a secret such as `account.db_password`.
    """

    text: str
    interpreter: str = "bash"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    output_file: str = ""
    """Variable with the path of the output file."""


@dataclass(frozen=True)
class ScriptRunResult:
    """Result of a script; `written` is the text of its output file, None if there is none."""

    exit_code: int
    outputs: Mapping[str, str]
    written: str | None = None


@dataclass(frozen=True)
class TerraformRunResult:
    """Result of a run of Terraform or Terragrunt.

    `ended` is empty if the program ended by itself, else STOPPED, TIMED_OUT or LOST. `begun` is whether it
    may have changed something. `outputs` map a name to its `value` and `is_secret`.
    """

    exit_code: int = 0
    command: str = ""
    ended: str = ""
    reason: str = ""
    begun: bool = False
    holds_resources: bool | None = None
    errors: Sequence[str] = ()
    lock_id: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    plan: str = field(default="", repr=False)
    lock: str = field(default="", repr=False)
    words: str = field(default="", repr=False)

    @property
    def is_good(self) -> bool:
        return not self.exit_code and not self.ended


WORKER_LOST = "LOST"


@dataclass(frozen=True)
class OutboundRequest:
    """An HTTP request; `secrets` names further headers, each with the reference of a secret."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True)
class OutboundResponse:
    """Response to a request."""

    status: int
    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True)
class FetchedFiles:
    """Files of one commit: path to text."""

    commit: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class LogSegment:
    """A segment of a growing log, its size in bytes, and the `status` of the response."""

    status: int
    text: str
    size: int


@dataclass(frozen=True)
class DelegateConnections:
    """The tasks that are connected as instances of a delegate, and refused registrations, newest first."""

    connected: Sequence[str]
    refusals: Sequence[str] = ()


class NonAwsCalls:
    """Calls of delegates, or of this Slipway itself, other than AWS calls. Each verb raises `AwsError`."""

    def __init__(self, caller: NonAwsCaller) -> None:
        self._caller = caller

    def run_script(self, script: Script) -> ScriptRunResult:
        """Run a script at a delegate to its end; its output is appended to the step's log meanwhile."""
        answer = self._call(
            RUN_SCRIPT,
            {
                "interpreter": script.interpreter,
                "script": script.text,
                "environment": dict(script.environment),
                "outputs": list(script.outputs),
                "secrets": {f"environment.{name}": ref for name, ref in script.secrets.items()},
                # Left out if empty: calls of older versions have no such parameter.
                **({"output_file": script.output_file} if script.output_file else {}),
            },
        )
        output_text = answer.get("written")
        outputs = {str(name): str(value) for name, value in (answer.get("outputs") or {}).items()}
        return ScriptRunResult(
            int(answer.get("exit_code", 0)), outputs, output_text if isinstance(output_text, str) else None
        )

    def run_terraform(self, params: Mapping[str, Any]) -> TerraformRunResult:
        """Run Terraform at a delegate to its end; its output is appended to the step's log meanwhile.

        `params` are those of the executor, with `secrets` from a path such as environment.TF_VAR_key to the
        reference of a secret, and `plan_id` for a stored plan.
        """
        answer = self._call(RUN_TERRAFORM, params)
        fields = TerraformRunResult.__dataclass_fields__
        return TerraformRunResult(**{name: value for name, value in answer.items() if name in fields})

    def send_request(self, request: OutboundRequest) -> OutboundResponse:
        """Send a request and return its response, whatever its status."""
        answer = self._call(
            SEND_REQUEST,
            {
                "method": request.method,
                "url": request.url,
                "headers": dict(request.headers),
                "body": request.body,
                "secrets": {f"headers.{name}": ref for name, ref in request.secrets.items()},
            },
        )
        headers = {str(name): str(value) for name, value in (answer.get("headers") or {}).items()}
        return OutboundResponse(int(answer.get("status", 0)), headers, str(answer.get("body", "")))

    def fetch_files(self, params: Mapping[str, Any]) -> FetchedFiles:
        """Fetch files of a repository: `url`, `ref` and `paths`, with `secrets` as parameter to reference.

        `through` is "Delegate" or "Manager", `selectors` the tags that the delegate needs; without them the
        settings of the stage's connector apply.
        """
        answer = self._call(FETCH_FILES, params)
        files = {str(name): str(text) for name, text in (answer.get("files") or {}).items()}
        return FetchedFiles(str(answer.get("commit", "")), files)

    def call_terraform_cloud(self, connector: str, params: Mapping[str, Any]) -> OutboundResponse:
        """Call the API of Terraform Cloud with `path` in parts, `method`, `query` and `body`.

        `connector` is a reference as people write it. `texts`, `hcl` and `secrets` (to references) are
        variables of the run.
        """
        answer = self._call(CALL_TERRAFORM_CLOUD, {"connector": connector, **params})
        return OutboundResponse(int(answer.get("status", 0)), {}, str(answer.get("body", "")))

    def read_terraform_log(self, connector: str, url: str, offset: int) -> LogSegment:
        """Return the next segment of a log from an offset in bytes."""
        params = {"connector": connector, "logUrl": url, "offset": offset}
        answer = self._call(READ_TERRAFORM_LOG, params)
        text, size = str(answer.get("body", "")), int(answer.get("size", -1))
        return LogSegment(int(answer.get("status", 0)), text, size if size >= 0 else len(text.encode()))

    def find_delegate_connections(
        self, delegate: str, tasks: Sequence[str], since: datetime
    ) -> DelegateConnections | None:
        """Return which ECS tasks are connected as a delegate, and refusals since then; None if it is missing.

        `delegate` is the name of a delegate in the scope of the execution or above it.
        """
        params = {"delegate": delegate, "tasks": list(tasks), "since": since.isoformat()}
        answer = self._call(FIND_CONNECTIONS, params)
        if not answer.get("found"):
            return None
        return DelegateConnections(answer["connected"], answer["refusals"])

    def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self._caller.call(DELEGATE_SERVICE, operation, params)
