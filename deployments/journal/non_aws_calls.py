"""Calls to other systems than AWS: scripts, Terraform, HTTP requests, Git, registries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from aws.caller import Caller
from aws.errors import AwsError, NotSent, Undelivered, parse_error_record
from connectors.models import Connector
from connectors.queries import find_connector
from connectors.secret_values import read_secret_value
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import (
    ConnectorUnavailable,
    DelegateAwsAccess,
    build_aws_payload,
    open_aws_access,
    require_built_in_enabled,
    require_lendable_credentials,
)
from delegates.access.site_calls import (
    DelegateSiteAccess,
    build_secret_payload,
    build_site_payload,
    get_task_kind,
    open_site_access,
    redact_result,
    run_locally,
    run_site_call_locally,
    trim_result,
)
from delegates.access.terraform_cloud import OPERATIONS, build_terraform_error
from delegates.agent.executors import TaskResult
from delegates.models import DelegateTask
from delegates.operations.tasks import stop_task, submit_task
from delegates.routing.rules import PROGRAM_PREFIX
from delegates.task_owners import BAD_ANSWERS, TaskPayload
from deployments.journal.aws_access import CALL_OWNER, CallSelectors, get_call_deadline, get_call_selectors
from deployments.journal.connection_reads import ConnectionReads
from deployments.journal.provisions import read_stored_plan
from deployments.journal.referenced_secrets import read_referenced_secret, unsent_while_pending
from deployments.models import AwsCall, StageExecution, StepExecution
from guards.masks import SecretMask
from rbac.models import Scope
from steps.actions.non_aws_calls import (
    CALL_TERRAFORM_CLOUD,
    DELEGATE_SERVICE,
    FETCH_FILES,
    FIND_CONNECTIONS,
    FIND_DIGEST,
    LIST_TAGS,
    READ_AWS,
    READ_TERRAFORM_LOG,
    RUN_SCRIPT,
    RUN_TERRAFORM,
    SEND_REQUEST,
    is_write_call,
)
from steps.states import CallState
from web.clock import get_database_time


class FinishedWork(Protocol):
    """Result of a call as a delegate or an executor reports it."""

    @property
    def status(self) -> str: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...
    @property
    def result(self) -> Mapping[str, Any] | None: ...


def redact_work_result(
    operation: str, payload: TaskPayload, result: Mapping[str, Any], connector: Connector | None = None
) -> dict[str, Any]:
    """Return the result to store: a server may return a secret that it received."""
    if operation in OPERATIONS:
        return redact_result(connector, operation, result)
    if operation != SEND_REQUEST:
        return trim_result(operation, result)
    return {**result, "body": SecretMask(payload.mask).mask_text(str(result.get("body", "")))}


def is_confirmable(operation: str) -> bool:
    """Return whether the effect of a call whose answer was lost can be confirmed."""
    return operation in OPERATIONS


def parse_work_error(answer: FinishedWork, operation: str, *, is_write: bool) -> AwsError | None:
    """Return the error of a failed answer; a script that ended with an exit code is no error."""
    if operation in OPERATIONS:
        return build_terraform_error(answer, is_write=is_write)
    error = answer.error or {}
    if error.get("kind") not in (None, "TaskError", "NotSent"):
        return parse_error_record({name: str(value) for name, value in error.items()})
    code, message = str(error.get("code", answer.status)), str(error.get("message") or "no reason was given")
    if answer.status == "SUCCEEDED" or (answer.status == "FAILED" and code in _RUN_ERRORS):
        return None
    if answer.status == "NOT_SENT" or (error.get("capability") and code in _MISSING_TOOLS):
        return NotSent(code, message, DELEGATE_SERVICE)
    return Undelivered(_CODES.get(code, "TASK_FAILED"), _get_error_message(message), DELEGATE_SERVICE)


# Errors of a program that ran to its end; the result has the details.
_RUN_ERRORS = ("ScriptFailed", "ProgramFailed")
# Errors of a missing tool, or of an older release, which another delegate may not have.
_MISSING_TOOLS = ("NoInterpreter", "NoGit", "NoTerraform", "ShellBlocked", "UnknownTask")
_CODES = {
    "Aborted": "TASK_ABORTED",
    "AddressRefused": "ADDRESS_REFUSED",
    **dict.fromkeys(BAD_ANSWERS, "BAD_ANSWER"),
    "BadParameters": "BAD_PARAMETERS",
    "GitFailed": "GIT_FAILED",
    "HostKeyChanged": "HOST_KEY_CHANGED",
    "NameNotResolved": "NOT_REACHED",
    "NoAnswer": "NOT_REACHED",
    "NoBackend": "NO_BACKEND",
    "NotConnected": "NOT_REACHED",
    "OutputsTooLarge": "OUTPUTS_TOO_LARGE",
    "PlanTooLarge": "PLAN_TOO_LARGE",
    "TimedOut": "TIMED_OUT",
}


def _get_error_message(text: str) -> str:
    message = text.strip().rstrip(".")
    return f"{message[:1].upper()}{message[1:]}."


_KINDS = {
    RUN_SCRIPT: DelegateTask.Kind.SHELL,
    RUN_TERRAFORM: DelegateTask.Kind.TERRAFORM,
    SEND_REQUEST: DelegateTask.Kind.HTTP,
    FETCH_FILES: DelegateTask.Kind.GIT,
}
_TITLES = {
    RUN_SCRIPT: "Script",
    RUN_TERRAFORM: "Terraform",
    SEND_REQUEST: "Request",
    FETCH_FILES: "Files",
    LIST_TAGS: "Tags",
    FIND_DIGEST: "Digest",
    CALL_TERRAFORM_CLOUD: "Terraform Cloud",
    READ_TERRAFORM_LOG: "Terraform Cloud's log",
    READ_AWS: "Look ahead",
}
# Parameters that select the delegate and are not sent to it.
_FOR_ROUTING = ("secrets", "through", "selectors", "plan_id")
# A reconcile pass has 30 seconds.
IN_PROCESS_SECONDS = 20.0
READ_SECONDS = 90


@dataclass(frozen=True)
class InProcessWork:
    """Access that makes the calls in this process; `connector` is the connector of the target system."""

    scope: Scope
    kind: str
    connector: Connector | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make the call. Raises `AwsError` with a complete sentence."""
        with unsent_while_pending():
            payload, answer = self._run(operation, params)
        if (
            error := parse_work_error(answer, operation, is_write=is_write_call(service, operation, params))
        ) is not None:
            raise error
        # In the form that the journal stores.
        redacted = redact_work_result(operation, payload, answer.result or {}, self.connector)
        return dict(json.loads(json.dumps(redacted)))

    def _run(self, operation: str, params: Mapping[str, Any]) -> tuple[TaskPayload, TaskResult]:
        if self.connector is None:
            payload = build_work_payload(self.scope, operation, params)
            return payload, run_locally(self.kind, payload, seconds=IN_PROCESS_SECONDS)
        secrets, seconds = _read_secrets(self.scope, params), IN_PROCESS_SECONDS
        answer = run_site_call_locally(self.connector, operation, params, seconds=seconds, secrets=secrets)
        return TaskPayload({}), answer


@dataclass(frozen=True)
class DelegateTaskWork:
    """Access that makes the calls through delegates."""

    kind: str
    params: Mapping[str, Any] = field(repr=False)
    selectors: CallSelectors
    connector: Connector | None = None
    criterion: str = ""
    """Required access of the delegate, if neither connector nor parameters determine it."""

    def queue(self, call_id: int) -> None:
        """Create a delegate task for the planned call; inside the commit that plans it."""
        call = AwsCall.objects.select_related("step__stage__connector", "execution__scope").get(pk=call_id)
        deadline = get_call_deadline(call)
        is_short = not call.is_write or call.operation in OPERATIONS
        seconds = READ_SECONDS if is_short else int((deadline - get_database_time()).total_seconds())
        task = submit_task(
            scope=call.execution.scope,
            kind=self.kind,
            title=f"{_TITLES[call.operation]} of step {call.step.identifier} of {call.execution}",
            payload={"operation": call.operation},
            owner=CALL_OWNER,
            owner_ref=str(call.pk),
            is_write=call.is_write,
            repeatable=not call.is_write,
            selectors=self.selectors.tags,
            selectors_from=self.selectors.source,
            criterion=self._get_criterion(),
            environment=self._environment or call.step.stage.environment,
            connector=self.connector,
            excluded_delegate_id=call.step.stage.excluded_delegate_id,
            timeout_seconds=max(1, seconds),
            deadline=deadline,
        )
        AwsCall.objects.filter(pk=call.pk).update(task=task)

    @property
    def _environment(self) -> str:
        """Return the environment of another stage, if the parameters have one."""
        environment = self.params.get("environment")
        return environment if isinstance(environment, str) else ""

    def _get_criterion(self) -> str:
        if self.criterion:
            return self.criterion
        if (program := _get_program(self.kind, self.params)) is not None:
            # A delegate without the program gets no such tasks for a while.
            return f"{PROGRAM_PREFIX}{program}"
        url = (
            DelegateSiteAccess(self.connector).criterion(DELEGATE_SERVICE)
            if self.connector
            else self.params.get("url", "")
        )
        return _build_criterion(str(url))


def open_work_access(
    step: StepExecution, operation: str, params: Mapping[str, Any]
) -> "InProcessWork | InProcessReads | ConnectionReads | DelegateTaskWork":
    """Return the access for a call: delegates run scripts, connector or parameters decide the rest."""
    stage = step.stage
    if operation == FIND_CONNECTIONS:
        return ConnectionReads(_get_scope(stage))
    connector = find_work_connector(stage.execution.scope, params)
    if connector is not None and operation == READ_AWS:
        return _open_account_access(params, connector)
    if connector is not None:
        return _open_site_access(step, get_task_kind(operation, connector), params, connector)
    spec, kind = parse_aws_spec(stage.connector.spec), _KINDS[operation]
    through = str(params.get("through") or ("Delegate" if spec.is_remote else "Manager"))
    if kind not in DelegateTask.RUNS_CODE and through == "Manager" and not step.delegate_selectors:
        return InProcessWork(_get_scope(stage), kind)
    own = tuple(str(selector) for selector in params.get("selectors") or ())
    return DelegateTaskWork(
        kind, params, get_call_selectors(step, own or (spec.delegate_selectors if spec.is_remote else ()))
    )


def _open_site_access(
    step: StepExecution, kind: str, params: Mapping[str, Any], connector: Connector
) -> InProcessWork | DelegateTaskWork:
    """Return the access for a call to the system of a connector."""
    access = open_site_access(connector)
    if isinstance(access, DelegateSiteAccess):
        return DelegateTaskWork(kind, params, CallSelectors(access.selectors, "CONNECTOR"), connector)
    require_built_in_enabled(connector)
    return InProcessWork(_get_scope(step.stage), kind, connector)


def _open_account_access(
    params: Mapping[str, Any], connector: Connector
) -> "InProcessReads | DelegateTaskWork":
    """Return the access for a read with the connector and region of another stage."""
    access = open_aws_access(connector, str(params["region"]))
    if isinstance(access, DelegateAwsAccess):
        selectors = CallSelectors(access.selectors, "CONNECTOR" if access.selectors else "")
        criterion = access.criterion(str(params["service"]))
        return DelegateTaskWork(DelegateTask.Kind.AWS, params, selectors, connector, criterion)
    return InProcessReads(access)


@dataclass(frozen=True)
class InProcessReads:
    """Reads for another stage from this process."""

    caller: Caller

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the read in the parameters."""
        return self.caller.call(str(params["service"]), str(params["operation"]), params["params"])


def find_work_connector(scope: Scope, params: Mapping[str, Any]) -> Connector | None:
    """Return the connector of the parameters, by key or reference; None if there is none.

    Raises `ConnectorUnavailable` if it was deleted.
    """
    reference = params.get("connector")
    if reference is None:
        return None
    if isinstance(reference, str):
        connector = find_connector(scope, reference, Connector.Kind.TERRAFORM_CLOUD)
    else:
        connector = Connector.objects.select_related("scope", "secret").filter(pk=reference).first()
    if connector is None:
        raise ConnectorUnavailable("The connector no longer exists. Choose another connector, and run again.")
    return connector


def _get_scope(stage: StageExecution) -> Scope:
    return stage.execution.scope


def refuse_credential_lending(task: DelegateTask, params: Mapping[str, Any]) -> None:
    """Raise `NotSent` if a task would use credentials that must not leave this Slipway."""
    if (connector := find_work_connector(task.scope, params)) is not None:
        require_lendable_credentials(task, connector)


def build_work_payload(scope: Scope, operation: str, params: Mapping[str, Any]) -> TaskPayload:
    """Return the parameters of a task with their secrets.

    Raises `Undelivered` if a secret is missing, `ConnectorUnavailable` if the connector is incomplete.
    """
    secrets = _read_secrets(scope, params)
    if (connector := find_work_connector(scope, params)) is not None and operation == READ_AWS:
        read_params = (str(params["service"]), str(params["operation"]), params["params"])
        return build_aws_payload(connector, str(params["region"]), *read_params)
    if connector is not None:
        return build_site_payload(connector, operation, params, secrets)
    task_params = {name: value for name, value in params.items() if name not in _FOR_ROUTING}
    if operation == RUN_TERRAFORM and params.get("plan_id"):
        task_params["plan"] = read_stored_plan(str(params["plan_id"]))
    return build_secret_payload(task_params, secrets)


def read_call_secrets(scope: Scope, params: Mapping[str, Any]) -> None:
    """Read the secrets that the parameters of a call name, and those of its connector.

    Raises `Undelivered`, `ConnectorUnavailable` and `SecretUnreadable` if there is none, and `Unavailable` or
    `SecretPending` while a delegate reads one.
    """
    _read_secrets(scope, params)
    if (connector := find_work_connector(scope, params)) is not None and connector.secret is not None:
        read_secret_value(connector.secret, reader=f"connector {connector}")


def _read_secrets(scope: Scope, params: Mapping[str, Any]) -> dict[str, str]:
    references = params.get("secrets") or {}
    return {path: read_referenced_secret(scope, str(reference)) for path, reference in references.items()}


def _get_program(kind: str, params: Mapping[str, Any]) -> str | None:
    """Return the program that a delegate needs for a task of a kind; None if it needs none."""
    if kind == DelegateTask.Kind.TERRAFORM:
        return str(params.get("program") or "terraform")
    return str(params.get("interpreter") or "bash") if kind == DelegateTask.Kind.SHELL else None


def _build_criterion(url: str) -> str:
    """Return scheme and host of a URL, which the delegate must reach; "" for an unreadable one."""
    try:
        parts = urlsplit(url) if "://" in url else None
    except ValueError:
        return ""  # The delegate refuses the URL, which fails the step.
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"[:512] if parts else ""


def stop_work(step: StepExecution) -> None:
    """Stop the delegate tasks of a step; inside a commit."""
    open_calls = AwsCall.objects.filter(
        step=step, service=DELEGATE_SERVICE, is_write=True, state__in=(CallState.PLANNED, CallState.SENT)
    )
    for task in DelegateTask.objects.filter(pk__in=open_calls.values("task")):
        stop_task(task, "The step needs it no more.")
