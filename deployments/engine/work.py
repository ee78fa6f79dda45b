"""The way of work that is no AWS call: a delegate task, or done within the look."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aws.caller import Caller
from aws.errors import Undelivered
from connectors.aws_accounts import read_spec
from connectors.models import Connector
from connectors.queries import find_connector
from connectors.secrets import SecretMissing, find_secret
from delegates.doors import DelegateDoor, DoorClosed, call_payload, open_door, refuse_disabled
from delegates.errands import SiteDoor, do_errand_here, errand_payload, kind_of, open_site
from delegates.lending import refuse_to_lend
from delegates.models import DelegateTask
from delegates.operations.tasks import stop_task, submit_task
from delegates.owners import Payload
from delegates.terraform_cloud import OPERATIONS
from delegates.work import do_here, sealed
from deployments.engine.doors import OWNER, Selectors, deadline_of, selectors_for
from deployments.engine.provisions import kept_plan
from deployments.engine.work_answers import error_of, result_of
from deployments.models import Call, StageExecution, StepExecution
from rbac.models import Scope
from steps.actions.work import (
    ASK_TERRAFORM,
    FETCH_FILES,
    FIND_DIGEST,
    LIST_TAGS,
    READ_AWS,
    READ_TERRAFORM_LOG,
    RUN_SCRIPT,
    RUN_TERRAFORM,
    SEND_REQUEST,
    SERVICE,
    changes,
)
from steps.states import CallState
from web.clock import database_now

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
    ASK_TERRAFORM: "Terraform Cloud",
    READ_TERRAFORM_LOG: "Terraform Cloud's log",
    READ_AWS: "Look ahead",
}
# What a person's word means to the one who does the work, and is no parameter of it.
_FOR_ROUTING = ("secrets", "through", "selectors", "plan_id")
# A look has 30 seconds in all.
SECONDS_HERE = 20.0
SECONDS_OF_READS = 90


@dataclass(frozen=True)
class WorkHere:
    """Does the work within this process, as the look waits; `connector` leads to where it is done."""

    scope: Scope
    kind: str
    connector: Connector | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Do it. Raises `AwsError` with a whole sentence."""
        payload = Payload({})
        if self.connector is not None:
            answer = do_errand_here(
                self.connector,
                operation,
                params,
                seconds=SECONDS_HERE,
                secrets=_secrets(self.scope, params),
            )
        else:
            payload = payload_of(self.scope, operation, params)
            answer = do_here(self.kind, payload, seconds=SECONDS_HERE)
        if (error := error_of(answer, operation, is_write=changes(service, operation, params))) is not None:
            raise error
        # As the journal keeps it.
        kept = result_of(operation, payload, answer.result or {}, self.connector)
        return dict(json.loads(json.dumps(kept)))


@dataclass(frozen=True)
class WorkDoor:
    """Hands the work to delegates."""

    kind: str
    params: Mapping[str, Any] = field(repr=False)
    asked: Selectors
    connector: Connector | None = None
    reaches: str = ""
    """What a delegate has to reach, where neither the connector nor the parameters say it."""

    def queue(self, call_id: int) -> None:
        """Make the planned call a delegate task; inside the commit that plans it."""
        call = Call.objects.select_related("step__stage__connector", "execution__scope").get(pk=call_id)
        deadline = deadline_of(call)
        is_short = not call.is_write or call.operation in OPERATIONS
        seconds = SECONDS_OF_READS if is_short else int((deadline - database_now()).total_seconds())
        task = submit_task(
            scope=call.execution.scope,
            kind=self.kind,
            title=f"{_TITLES[call.operation]} of step {call.step.identifier} of {call.execution}",
            payload={"operation": call.operation},
            owner=OWNER,
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
        Call.objects.filter(pk=call.pk).update(task=task)

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
        url = SiteDoor(self.connector).criterion(SERVICE) if self.connector else self.params.get("url", "")
        return _criterion(str(url))


def open_work(
    step: StepExecution, operation: str, params: Mapping[str, Any]
) -> "WorkHere | ReadsHere | WorkDoor":
    """The way of one piece of work: scripts go to delegates, the rest as connector or parameters say."""
    stage = step.stage
    connector = connector_of(stage.execution.scope, params)
    if connector is not None and operation == READ_AWS:
        return _to_account(params, connector)
    if connector is not None:
        return _to_site(step, kind_of(operation, connector), params, connector)
    spec, kind = read_spec(stage.connector.spec), _KINDS[operation]
    through = str(params.get("through") or ("Delegate" if spec.is_remote else "Manager"))
    if kind not in DelegateTask.RUNS_CODE and through == "Manager" and not step.delegate_selectors:
        return WorkHere(_scope_of(stage), kind)
    own = tuple(str(one) for one in params.get("selectors") or ())
    return WorkDoor(
        kind, params, selectors_for(step, own or (spec.delegate_selectors if spec.is_remote else ()))
    )


def _to_site(
    step: StepExecution, kind: str, params: Mapping[str, Any], connector: Connector
) -> WorkHere | WorkDoor:
    """The way of work that goes where a connector leads: it says who does it."""
    way = open_site(connector)
    if isinstance(way, SiteDoor):
        return WorkDoor(kind, params, Selectors(way.selectors, "CONNECTOR"), connector)
    refuse_disabled(connector)
    return WorkHere(_scope_of(step.stage), kind, connector)


def _to_account(params: Mapping[str, Any], connector: Connector) -> "ReadsHere | WorkDoor":
    """The way of a read for another stage: by that stage's connector and region."""
    way = open_door(connector, str(params["region"]))
    if isinstance(way, DelegateDoor):
        asked = Selectors(way.selectors, "CONNECTOR" if way.selectors else "")
        criterion = way.criterion(str(params["service"]))
        return WorkDoor(DelegateTask.Kind.AWS, params, asked, connector, criterion)
    return ReadsHere(way)


@dataclass(frozen=True)
class ReadsHere:
    """Reads for another stage whose connector goes out from here by now."""

    way: Caller

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the read that the parameters name."""
        return self.way.call(str(params["service"]), str(params["operation"]), params["params"])


def connector_of(scope: Scope, params: Mapping[str, Any]) -> Connector | None:
    """The connector whose login is used, where one is named, by its key or as people write it.

    Raises `DoorClosed` if it is gone.
    """
    named = params.get("connector")
    if named is None:
        return None
    if isinstance(named, str):
        found = find_connector(scope, named, Connector.Kind.TERRAFORM_CLOUD)
    else:
        found = Connector.objects.select_related("scope", "secret").filter(pk=named).first()
    if found is None:
        raise DoorClosed("The connector is no longer there: name another one, and run again.")
    return found


def _scope_of(stage: StageExecution) -> Scope:
    return stage.execution.scope


def refuse_to_lend_for(task: DelegateTask, params: Mapping[str, Any]) -> None:
    """Raises `NotSent` where work would be done with credentials of this Slipway that it does not lend."""
    if (connector := connector_of(task.scope, params)) is not None:
        refuse_to_lend(task, connector)


def payload_of(scope: Scope, operation: str, params: Mapping[str, Any]) -> Payload:
    """What does the work gets: the parameters with their secrets put in.

    Raises `Undelivered` where a secret is missing, `DoorClosed` where the connector lacks something.
    """
    found = _secrets(scope, params)
    if (connector := connector_of(scope, params)) is not None and operation == READ_AWS:
        asked = (str(params["service"]), str(params["operation"]), params["params"])
        return call_payload(connector, str(params["region"]), *asked)
    if connector is not None:
        return errand_payload(connector, operation, params, found)
    kept = {name: one for name, one in params.items() if name not in _FOR_ROUTING}
    if operation == RUN_TERRAFORM and params.get("plan_id"):
        kept["plan"] = kept_plan(str(params["plan_id"]))
    return sealed(kept, found)


def _secrets(scope: Scope, params: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {
            path: find_secret(scope, str(ref)).value for path, ref in (params.get("secrets") or {}).items()
        }
    except SecretMissing as missing:
        raise Undelivered("SECRET_MISSING", str(missing)) from missing


def _criterion(url: str) -> str:
    """What must be in reach: the place of a URL, without what a person may have written behind it."""
    parts = urlsplit(url) if "://" in url else None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"[:512] if parts else ""


def stop_work(step: StepExecution) -> None:
    """Take back what the step has queued, and ask whoever does work of it to stop; inside a commit."""
    under_way = Call.objects.filter(
        step=step, service=SERVICE, is_write=True, state__in=(CallState.PLANNED, CallState.SENT)
    )
    for task in DelegateTask.objects.filter(pk__in=under_way.values("task")):
        stop_task(task, "The step needs it no more.")
