"""Calls to other systems than AWS: scripts, Terraform, HTTP requests, Git, registries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from aws.caller import Caller
from aws.errors import AwsError, NotSent, Undelivered, parse_error_record
from connectors.models import Connector
from connectors.queries import SecretNotFound, find_connector, find_secret
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
from delegates.models import DelegateTask
from delegates.operations.tasks import stop_task, submit_task
from delegates.task_owners import BAD_ANSWER, TaskPayload
from deployments.journal.aws_access import CALL_OWNER, CallSelectors, get_call_deadline, get_call_selectors
from deployments.journal.provisions import read_stored_plan
from deployments.models import AwsCall, StageExecution, StepExecution
from guards.masks import SecretMask
from rbac.models import Scope
from steps.actions.non_aws_calls import (
    CALL_TERRAFORM_CLOUD,
    DELEGATE_SERVICE,
    FETCH_FILES,
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
    """How work ended, as a delegate or an executor says it."""

    @property
    def status(self) -> str: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...
    @property
    def result(self) -> Mapping[str, Any] | None: ...


def redact_work_result(
    operation: str, payload: TaskPayload, result: Mapping[str, Any], connector: Connector | None = None
) -> dict[str, Any]:
    """What is kept of a result: a server that is told a secret may say it again."""
    if operation in OPERATIONS:
        return redact_result(connector, operation, result)
    if operation != SEND_REQUEST:
        return trim_result(operation, result)
    return {**result, "body": SecretMask(payload.mask).mask_text(str(result.get("body", "")))}


def is_confirmable(operation: str) -> bool:
    """Return whether something can show what became of work whose answer is lost."""
    return operation in OPERATIONS


def parse_work_error(answer: FinishedWork, operation: str, *, is_write: bool) -> AwsError | None:
    """What an answer that is not good means; a script that ended with an exit code has been run."""
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


# It has run, and its result says what came of it.
_RUN_ERRORS = ("ScriptFailed", "ProgramFailed")
# What another delegate may have.
_MISSING_TOOLS = ("NoInterpreter", "NoGit", "NoTerraform", "ShellBlocked")
_CODES = {
    "Aborted": "TASK_ABORTED",
    "AddressRefused": "ADDRESS_REFUSED",
    BAD_ANSWER: "BAD_ANSWER",
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
# What a person's word means to the one who does the work, and is no parameter of it.
_FOR_ROUTING = ("secrets", "through", "selectors", "plan_id")
# A reconcile pass has 30 seconds in all.
IN_PROCESS_SECONDS = 20.0
READ_SECONDS = 90


@dataclass(frozen=True)
class InProcessWork:
    """Access that does the work in this process during the pass; `connector` leads to where it is done."""

    scope: Scope
    kind: str
    connector: Connector | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Do it. Raises `AwsError` with a whole sentence."""
        payload = TaskPayload({})
        if self.connector is not None:
            answer = run_site_call_locally(
                self.connector,
                operation,
                params,
                seconds=IN_PROCESS_SECONDS,
                secrets=_read_secrets(self.scope, params),
            )
        else:
            payload = build_work_payload(self.scope, operation, params)
            answer = run_locally(self.kind, payload, seconds=IN_PROCESS_SECONDS)
        if (
            error := parse_work_error(answer, operation, is_write=is_write_call(service, operation, params))
        ) is not None:
            raise error
        # As the journal keeps it.
        kept = redact_work_result(operation, payload, answer.result or {}, self.connector)
        return dict(json.loads(json.dumps(kept)))


@dataclass(frozen=True)
class DelegateTaskWork:
    """Hands the work to delegates."""

    kind: str
    params: Mapping[str, Any] = field(repr=False)
    asked: CallSelectors
    connector: Connector | None = None
    reaches: str = ""
    """What a delegate has to reach, where neither the connector nor the parameters say it."""

    def queue(self, call_id: int) -> None:
        """Make the planned call a delegate task; inside the commit that plans it."""
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
            selectors=self.asked.tags,
            selectors_from=self.asked.place,
            criterion=self._criterion,
            environment=self._environment or call.step.stage.environment,
            connector=self.connector,
            timeout_seconds=max(1, seconds),
            deadline=deadline,
        )
        AwsCall.objects.filter(pk=call.pk).update(task=task)

    @property
    def _environment(self) -> str:
        """Of another stage, where the parameters name one; those of a program are its variables."""
        named = self.params.get("environment")
        return named if isinstance(named, str) else ""

    @property
    def _criterion(self) -> str:
        if self.reaches:
            return self.reaches
        if self.kind == DelegateTask.Kind.TERRAFORM:
            # A delegate without the program is left alone with such tasks for a while.
            return f"program {self.params.get('program', 'terraform')}"
        url = (
            DelegateSiteAccess(self.connector).criterion(DELEGATE_SERVICE)
            if self.connector
            else self.params.get("url", "")
        )
        return _build_criterion(str(url))


def open_work_access(
    step: StepExecution, operation: str, params: Mapping[str, Any]
) -> "InProcessWork | InProcessReads | DelegateTaskWork":
    """The way of one piece of work: scripts go to delegates, the rest as connector or parameters say."""
    stage = step.stage
    connector = find_work_connector(stage.execution.scope, params)
    if connector is not None and operation == READ_AWS:
        return _open_account_access(params, connector)
    if connector is not None:
        return _open_site_access(step, get_task_kind(operation, connector), params, connector)
    spec, kind = parse_aws_spec(stage.connector.spec), _KINDS[operation]
    through = str(params.get("through") or ("Delegate" if spec.is_remote else "Manager"))
    if kind not in DelegateTask.RUNS_CODE and through == "Manager" and not step.delegate_selectors:
        return InProcessWork(_get_scope(stage), kind)
    own = tuple(str(one) for one in params.get("selectors") or ())
    return DelegateTaskWork(
        kind, params, get_call_selectors(step, own or (spec.delegate_selectors if spec.is_remote else ()))
    )


def _open_site_access(
    step: StepExecution, kind: str, params: Mapping[str, Any], connector: Connector
) -> InProcessWork | DelegateTaskWork:
    """Return the way of work that goes where a connector leads: it says who does it."""
    way = open_site_access(connector)
    if isinstance(way, DelegateSiteAccess):
        return DelegateTaskWork(kind, params, CallSelectors(way.selectors, "CONNECTOR"), connector)
    require_built_in_enabled(connector)
    return InProcessWork(_get_scope(step.stage), kind, connector)


def _open_account_access(
    params: Mapping[str, Any], connector: Connector
) -> "InProcessReads | DelegateTaskWork":
    """Return the way of a read for another stage: by that stage's connector and region."""
    way = open_aws_access(connector, str(params["region"]))
    if isinstance(way, DelegateAwsAccess):
        asked = CallSelectors(way.selectors, "CONNECTOR" if way.selectors else "")
        criterion = way.criterion(str(params["service"]))
        return DelegateTaskWork(DelegateTask.Kind.AWS, params, asked, connector, criterion)
    return InProcessReads(way)


@dataclass(frozen=True)
class InProcessReads:
    """Reads for another stage whose connector goes out from here by now."""

    way: Caller

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the read that the parameters name."""
        return self.way.call(str(params["service"]), str(params["operation"]), params["params"])


def find_work_connector(scope: Scope, params: Mapping[str, Any]) -> Connector | None:
    """Return the connector whose login is used, where one is named, by its key or as people write it.

    Raises `ConnectorUnavailable` if it is gone.
    """
    named = params.get("connector")
    if named is None:
        return None
    if isinstance(named, str):
        found = find_connector(scope, named, Connector.Kind.TERRAFORM_CLOUD)
    else:
        found = Connector.objects.select_related("scope", "secret").filter(pk=named).first()
    if found is None:
        raise ConnectorUnavailable("The connector is no longer there: name another one, and run again.")
    return found


def _get_scope(stage: StageExecution) -> Scope:
    return stage.execution.scope


def refuse_credential_lending(task: DelegateTask, params: Mapping[str, Any]) -> None:
    """Raises `NotSent` where work would be done with credentials of this Slipway that it does not lend."""
    if (connector := find_work_connector(task.scope, params)) is not None:
        require_lendable_credentials(task, connector)


def build_work_payload(scope: Scope, operation: str, params: Mapping[str, Any]) -> TaskPayload:
    """What does the work gets: the parameters with their secrets put in.

    Raises `Undelivered` where a secret is missing, `ConnectorUnavailable` where the connector lacks
    something.
    """
    found = _read_secrets(scope, params)
    if (connector := find_work_connector(scope, params)) is not None and operation == READ_AWS:
        asked = (str(params["service"]), str(params["operation"]), params["params"])
        return build_aws_payload(connector, str(params["region"]), *asked)
    if connector is not None:
        return build_site_payload(connector, operation, params, found)
    kept = {name: one for name, one in params.items() if name not in _FOR_ROUTING}
    if operation == RUN_TERRAFORM and params.get("plan_id"):
        kept["plan"] = read_stored_plan(str(params["plan_id"]))
    return build_secret_payload(kept, found)


def _read_secrets(scope: Scope, params: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {
            path: find_secret(scope, str(ref)).value for path, ref in (params.get("secrets") or {}).items()
        }
    except SecretNotFound as missing:
        raise Undelivered("SECRET_MISSING", str(missing)) from missing


def _build_criterion(url: str) -> str:
    """What must be in reach: the place of a URL, without what a person may have written behind it."""
    parts = urlsplit(url) if "://" in url else None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"[:512] if parts else ""


def stop_work(step: StepExecution) -> None:
    """Take back what the step has queued, and ask whoever does work of it to stop; inside a commit."""
    under_way = AwsCall.objects.filter(
        step=step, service=DELEGATE_SERVICE, is_write=True, state__in=(CallState.PLANNED, CallState.SENT)
    )
    for task in DelegateTask.objects.filter(pk__in=under_way.values("task")):
        stop_task(task, "The step needs it no more.")
