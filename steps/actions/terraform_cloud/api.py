"""API client of Terraform Cloud: workspaces, runs, refusals, confirmation of lost calls."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from steps.actions.base import ActionFailed
from steps.actions.confirmations import Applied, CallRecord, Confirmation, NotApplied, Unconfirmed
from steps.actions.context import StepContext
from steps.actions.non_aws_calls import OutboundResponse

# Statuses that never change again.
FINAL_STATUSES: Final = (
    "applied",
    "planned_and_finished",
    "planned_and_saved",
    "policy_soft_failed",
    "discarded",
    "errored",
    "canceled",
    "force_canceled",
)
# Statuses in which a person must decide on a policy or a task before the run continues.
UNDECIDED_STATUSES: Final = ("policy_override", "post_plan_awaiting_decision", "pre_apply_awaiting_decision")
# Statuses of an apply that may have changed resources.
_STARTED_STATUSES: Final = ("running", "errored", "canceled", "finished")
_STATUS_TEXTS: Final = {
    "pending": "waits for its turn in the workspace",
    "planning": "is being planned",
    "planned": "is planned",
    "cost_estimating": "has its costs estimated",
    "policy_checking": "is held to policies",
    "policy_override": "broke a policy that may be overridden",
    "policy_soft_failed": "broke a policy",
    "policy_checked": "keeps all policies",
    "planned_and_finished": "is planned, and nothing is left to apply",
    "confirmed": "is confirmed",
    "applying": "is being applied",
    "applied": "is applied",
    "errored": "ended with an error",
    "discarded": "was discarded",
    "canceled": "was cancelled",
    "force_canceled": "was cancelled by force",
    "post_plan_awaiting_decision": "waits for a decision about one of its tasks",
}


@dataclass(frozen=True)
class RunPhase:
    """Plan or apply of a run; `counts` are additions, changes and destructions."""

    id: str = ""
    status: str = ""
    log_url: str = field(default="", repr=False)
    counts: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class TerraformCloudRun:
    """Run as returned by the API; `variables` are HCL, `targets` the only resources it concerns, if any."""

    id: str
    status: str
    message: str = ""
    has_changes: bool = False
    is_confirmable: bool = False
    is_discardable: bool = False
    is_cancelable: bool = False
    is_destroy: bool = False
    configuration: str = ""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    plan: RunPhase = RunPhase()
    apply: RunPhase = RunPhase()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    targets: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def is_undecided(self) -> bool:
        return self.status in UNDECIDED_STATUSES

    @property
    def may_have_applied(self) -> bool:
        """Return whether its apply began."""
        return self.status == "applied" or self.apply.status in _STARTED_STATUSES

    @property
    def status_text(self) -> str:
        """Return the status in words."""
        return _STATUS_TEXTS.get(self.status, f"is {self.status.replace('_', ' ')}")


def parse_run(document: Mapping[str, Any]) -> TerraformCloudRun:
    """Return a run from an API document; missing values are empty."""
    data = _as_mapping(document.get("data"))
    attributes, relations = _as_mapping(data.get("attributes")), _as_mapping(data.get("relationships"))
    actions = _as_mapping(attributes.get("actions"))
    included = {
        str(item.get("id")): item for item in document.get("included") or [] if isinstance(item, Mapping)
    }
    return TerraformCloudRun(
        str(data.get("id", "")),
        str(attributes.get("status", "")),
        str(attributes.get("message") or ""),
        attributes.get("has-changes") is True,
        actions.get("is-confirmable") is True,
        actions.get("is-discardable") is True,
        actions.get("is-cancelable") is True,
        attributes.get("is-destroy") is True,
        _get_related_id(relations, "configuration-version"),
        _parse_variables(attributes.get("variables")),
        _parse_phase(_get_related_id(relations, "plan"), included),
        _parse_phase(_get_related_id(relations, "apply"), included),
        data,
        tuple(target for target in attributes.get("target-addrs") or () if isinstance(target, str)),
    )


def _parse_phase(phase_id: str, included: Mapping[str, Mapping[str, Any]]) -> RunPhase:
    attributes = _as_mapping(included.get(phase_id, {}).get("attributes"))
    counts = [attributes.get(f"resource-{name}") for name in ("additions", "changes", "destructions")]
    added, changed, destroyed = (count if isinstance(count, int) else 0 for count in counts)
    url = str(attributes.get("log-read-url") or "")
    return RunPhase(phase_id, str(attributes.get("status") or ""), url, (added, changed, destroyed))


def _get_related_id(relations: Mapping[str, Any], name: str) -> str:
    return str(_as_mapping(_as_mapping(relations.get(name)).get("data")).get("id") or "")


def _parse_variables(document: Any) -> dict[str, str]:
    variables = (
        [variable for variable in document if isinstance(variable, Mapping)]
        if isinstance(document, list)
        else []
    )
    return {str(variable.get("key")): str(variable.get("value", "")) for variable in variables}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


PAGE_SIZE: Final = 100
PAGE_LIMIT: Final = 20
_WITH_LOGS: Final = {"include": "plan,apply"}
Document = Mapping[str, Any]


@dataclass(frozen=True)
class TerraformCloudWorkspace:
    """Workspace: the state of one configuration, and a queue of runs."""

    id: str
    name: str
    organization: str
    has_state: bool
    is_locked: bool
    execution_mode: str
    can_queue: bool

    def __str__(self) -> str:
        return f"{self.organization}/{self.name}" if self.organization else self.name


@dataclass(frozen=True)
class TerraformCloud:
    """API of one connector; every method raises `ActionFailed` with the refused request and the reason."""

    context: StepContext
    connector: str

    def workspace(self, organization: str, name: str) -> TerraformCloudWorkspace:
        """Return the workspace with a name, or with an id that begins with ws-."""
        path: tuple[str, ...] = ("workspaces", name)
        if not name.startswith("ws-"):
            path = ("organizations", organization, *path)
        return _parse_workspace(self.get(path, f"the workspace {name}"), organization)

    def run(self, run_id: str) -> TerraformCloudRun:
        """Return a run with its plan and its apply."""
        return parse_run(self.get(("runs", run_id), f"the run {run_id}", _WITH_LOGS))

    def runs(self, workspace: str, statuses: str = "", limit: int = PAGE_SIZE) -> list[TerraformCloudRun]:
        """Return the newest runs of a workspace, newest first, optionally filtered by status."""
        query = {"page[size]": str(limit)} | ({"filter[status]": statuses} if statuses else {})
        documents = self.get(("workspaces", workspace, "runs"), "the runs of the workspace", query).get(
            "data"
        )
        return [
            parse_run({"data": document}) for document in documents or [] if isinstance(document, Mapping)
        ]

    def create_run(self, body: Document, variables: Mapping[str, Mapping[str, str]]) -> TerraformCloudRun:
        """Create a run; `variables` are `texts`, `hcl` and `secrets`, each a mapping."""
        variable_parameters = {kind: dict(values) for kind, values in variables.items() if values}
        response = self._send({"method": "POST", "path": ["runs"], "body": body, **variable_parameters})
        return parse_run(_parse_document(response, "a run", (201,)))

    def post_action(self, path: tuple[str, ...], comment: str) -> bool:
        """Perform an action on a run or a policy; return False if its status no longer allows it."""
        body = {"comment": comment} if comment else {}
        response = self._send({"method": "POST", "path": list(path), "body": body})
        if response.status == 409:
            return False
        _raise_refusal(response, " ".join(path[2:][-1:]) or "the action", (200, 201, 202, 204))
        return True

    def list_documents(self, path: tuple[str, ...], subject: str) -> list[Document]:
        """Return all entries of a list, page by page; empty if the list does not exist."""
        documents: list[Document] = []
        page: Any = 1
        for _ in range(PAGE_LIMIT):
            query = {"page[size]": str(PAGE_SIZE), "page[number]": str(page)}
            response = self._send({"path": list(path), "query": query})
            if response.status == 404:
                return documents
            document = _parse_document(response, subject, (200,))
            documents += [entry for entry in document.get("data") or [] if isinstance(entry, Mapping)]
            page = _get_nested(document, "meta", "pagination").get("next-page")
            if not page:
                break
        return documents

    def get(self, path: tuple[str, ...], subject: str, query: Mapping[str, str] | None = None) -> Document:
        """Return a document of the API; `subject` is its name in messages."""
        response = self._send({"path": list(path), **({"query": dict(query)} if query else {})})
        return _parse_document(response, subject, (200,))

    def _send(self, params: Mapping[str, Any]) -> OutboundResponse:
        return self.context.work.call_terraform_cloud(self.connector, params)


def build_run_answer(run: Document) -> dict[str, Any]:
    """Return the answer that the API gave when the confirmed run was created."""
    return {"status": 201, "body": json.dumps({"data": run}), "size": -1}


def _parse_document(response: OutboundResponse, subject: str, accepted: tuple[int, ...]) -> Document:
    _raise_refusal(response, subject, accepted)
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping):
        raise ActionFailed(
            "NOT_TERRAFORM_CLOUD", f"What was answered for {subject} is not of Terraform Cloud."
        )
    return document


def _raise_refusal(response: OutboundResponse, subject: str, accepted: tuple[int, ...]) -> None:
    if response.status in accepted:
        return
    reason = _parse_reason(response)
    if response.status == 401:
        raise ActionFailed(
            "TOKEN_REFUSED",
            "Terraform Cloud does not accept the connector's token (401): give the connector a new one.",
        )
    if response.status == 403:
        raise ActionFailed("ACCESS_DENIED", f"The connector's token may not do this to {subject}: {reason}.")
    if response.status == 404:
        raise ActionFailed(
            "NOT_FOUND",
            f"Terraform Cloud shows no such thing to this token: {subject} (404). Check the name and the "
            f"permissions of the token's user or team.",
        )
    raise ActionFailed("TERRAFORM_CLOUD_REFUSED", f"Terraform Cloud refused {subject}: {reason}.")


def _parse_reason(response: OutboundResponse) -> str:
    """Return the reasons in the API's error response."""
    try:
        errors = json.loads(response.body).get("errors")
    except (ValueError, AttributeError, RecursionError):
        errors = None
    texts = [_format_error(error) for error in errors] if isinstance(errors, list) else []
    reasons = "; ".join(dict.fromkeys(text for text in texts if text))
    return f"{reasons[:500]} ({response.status})" if reasons else f"HTTP status {response.status}"


def _format_error(error: Any) -> str:
    if not isinstance(error, Mapping):
        return str(error)[:200]
    return str(error.get("detail") or error.get("title") or "")[:200].rstrip(".")


def _parse_workspace(document: Document, organization: str) -> TerraformCloudWorkspace:
    data = _get_nested(document, "data")
    attributes = _get_nested(data, "attributes")
    permissions = _get_nested(attributes, "permissions")
    owner = _get_nested(data, "relationships", "organization", "data").get("id")
    return TerraformCloudWorkspace(
        str(data.get("id", "")),
        str(attributes.get("name", "")),
        str(owner or organization),
        bool(_get_nested(data, "relationships", "current-state-version", "data").get("id")),
        attributes.get("locked") is True,
        str(attributes.get("execution-mode") or "remote"),
        permissions.get("can-queue-run") is not False,
    )


def _get_nested(value: Any, *keys: str) -> Document:
    """Return a mapping inside of mappings; an empty one if a key is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


# Longest delivery time of a request without visible effect.
_CALL_DELIVERY_TIME: Final = timedelta(seconds=30)
_ACCEPTED_ANSWER: Final = {"status": 202, "body": "", "size": -1}


def confirm_terraform_cloud_call(
    context: StepContext, connector: str, call: CallRecord, workspace: str
) -> Confirmation:
    """Confirm a run by its message, or an action by the state of its run."""
    cloud = TerraformCloud(context, connector)
    path = [str(part) for part in call.params["path"]]
    if path == ["runs"]:
        return _confirm_run(cloud, call, workspace)
    if path[0] == "runs":
        return _confirm_run_action(cloud, call, path[1], path[-1])
    # A second override is refused without harm.
    return _build_not_applied(context, call)


def _confirm_run(cloud: TerraformCloud, call: CallRecord, workspace: str) -> Confirmation:
    message = str(call.params["body"]["data"]["attributes"]["message"])
    for run in cloud.runs(workspace):
        if run.message == message:
            return Applied(build_run_answer(run.raw))
    return _build_not_applied(cloud.context, call)


def _confirm_run_action(cloud: TerraformCloud, call: CallRecord, run_id: str, verb: str) -> Confirmation:
    run = cloud.run(run_id)
    is_open = {"apply": run.is_confirmable, "discard": run.is_discardable, "cancel": run.is_cancelable}
    if is_open.get(verb, False):
        return _build_not_applied(cloud.context, call)
    return Applied(_build_applied())


def _build_applied() -> dict[str, Any]:
    return dict(_ACCEPTED_ANSWER)


def _build_not_applied(context: StepContext, call: CallRecord) -> Confirmation:
    return NotApplied() if context.now() - call.sent_at > _CALL_DELIVERY_TIME else Unconfirmed()
