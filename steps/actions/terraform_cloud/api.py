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

# Nothing more comes of these.
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
# Somebody has to decide about a policy or a task of the run before it can go on.
UNDECIDED_STATUSES: Final = ("policy_override", "post_plan_awaiting_decision", "pre_apply_awaiting_decision")
# Of an apply that has begun, something may have come.
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
    """The plan or the apply of a run; `counts` are additions, changes and destructions."""

    id: str = ""
    status: str = ""
    log_url: str = field(default="", repr=False)
    counts: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class TerraformCloudRun:
    """A run as the API shows it; `variables` are HCL."""

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
    def words(self) -> str:
        """Where it stands, in words."""
        return _STATUS_TEXTS.get(self.status, f"is {self.status.replace('_', ' ')}")


def parse_run(said: Mapping[str, Any]) -> TerraformCloudRun:
    """Return a run from a document of the API; what is missing is empty."""
    data = _as_mapping(said.get("data"))
    attributes, relations = _as_mapping(data.get("attributes")), _as_mapping(data.get("relationships"))
    actions = _as_mapping(attributes.get("actions"))
    beside = {str(one.get("id")): one for one in said.get("included") or [] if isinstance(one, Mapping)}
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
        _parse_phase(_get_related_id(relations, "plan"), beside),
        _parse_phase(_get_related_id(relations, "apply"), beside),
        data,
    )


def _parse_phase(id_: str, beside: Mapping[str, Mapping[str, Any]]) -> RunPhase:
    attributes = _as_mapping(beside.get(id_, {}).get("attributes"))
    counts = [attributes.get(f"resource-{name}") for name in ("additions", "changes", "destructions")]
    added, changed, destroyed = (one if isinstance(one, int) else 0 for one in counts)
    url = str(attributes.get("log-read-url") or "")
    return RunPhase(id_, str(attributes.get("status") or ""), url, (added, changed, destroyed))


def _get_related_id(relations: Mapping[str, Any], name: str) -> str:
    return str(_as_mapping(_as_mapping(relations.get(name)).get("data")).get("id") or "")


def _parse_variables(listed: Any) -> dict[str, str]:
    found = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return {str(one.get("key")): str(one.get("value", "")) for one in found}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


PAGE_SIZE: Final = 100
PAGE_LIMIT: Final = 20
_WITH_LOGS: Final = {"include": "plan,apply"}
Document = Mapping[str, Any]


@dataclass(frozen=True)
class TerraformCloudWorkspace:
    """A workspace: where the state of one configuration is kept, and runs stand in line."""

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
    """What one connector leads to; every method raises `ActionFailed` with what was refused, and why."""

    context: StepContext
    connector: str

    def workspace(self, organization: str, name: str) -> TerraformCloudWorkspace:
        """Return the workspace of a name, or of an id that begins with ws-."""
        path: tuple[str, ...] = ("workspaces", name)
        if not name.startswith("ws-"):
            path = ("organizations", organization, *path)
        return _parse_workspace(self.get(path, f"the workspace {name}"), organization)

    def run(self, run_id: str) -> TerraformCloudRun:
        """Return a run with its plan and its apply."""
        return parse_run(self.get(("runs", run_id), f"the run {run_id}", _WITH_LOGS))

    def runs(self, workspace: str, statuses: str = "", most: int = PAGE_SIZE) -> list[TerraformCloudRun]:
        """Return the newest runs of a workspace, the newest first; of these statuses where some are named."""
        query = {"page[size]": str(most)} | ({"filter[status]": statuses} if statuses else {})
        listed = self.get(("workspaces", workspace, "runs"), "the runs of the workspace", query).get("data")
        return [parse_run({"data": one}) for one in listed or [] if isinstance(one, Mapping)]

    def create_run(self, body: Document, variables: Mapping[str, Mapping[str, str]]) -> TerraformCloudRun:
        """Make a run; `variables` are `texts`, `hcl` and `secrets`, each a mapping."""
        given = {kind: dict(values) for kind, values in variables.items() if values}
        reply = self._ask({"method": "POST", "path": ["runs"], "body": body, **given})
        return parse_run(_parse_document(reply, "a run", (201,)))

    def act(self, path: tuple[str, ...], comment: str) -> bool:
        """Let something happen to a run or a policy; False where it is past that already."""
        body = {"comment": comment} if comment else {}
        reply = self._ask({"method": "POST", "path": list(path), "body": body})
        if reply.status == 409:
            return False
        _raise_refusal(reply, " ".join(path[2:][-1:]) or "the action", (200, 201, 202, 204))
        return True

    def listed(self, path: tuple[str, ...], what: str) -> list[Document]:
        """Return all entries of a list, page by page; nothing of what is not there."""
        found: list[Document] = []
        page: Any = 1
        for _ in range(PAGE_LIMIT):
            query = {"page[size]": str(PAGE_SIZE), "page[number]": str(page)}
            reply = self._ask({"path": list(path), "query": query})
            if reply.status == 404:
                return found
            said = _parse_document(reply, what, (200,))
            found += [one for one in said.get("data") or [] if isinstance(one, Mapping)]
            page = _get_nested(said, "meta", "pagination").get("next-page")
            if not page:
                break
        return found

    def get(self, path: tuple[str, ...], what: str, query: Mapping[str, str] | None = None) -> Document:
        """Return a document of the API; `what` is what people call it."""
        reply = self._ask({"path": list(path), **({"query": dict(query)} if query else {})})
        return _parse_document(reply, what, (200,))

    def _ask(self, params: Mapping[str, Any]) -> OutboundResponse:
        return self.context.work.ask_terraform(self.connector, params)


def build_run_answer(run: Document) -> dict[str, Any]:
    """Return a run found again, as the API would have answered when it was made."""
    return {"status": 201, "body": json.dumps({"data": run}), "size": -1}


def _parse_document(reply: OutboundResponse, what: str, good: tuple[int, ...]) -> Document:
    _raise_refusal(reply, what, good)
    try:
        said = json.loads(reply.body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, Mapping):
        raise ActionFailed("NOT_TERRAFORM_CLOUD", f"What was answered for {what} is not of Terraform Cloud.")
    return said


def _raise_refusal(reply: OutboundResponse, what: str, good: tuple[int, ...]) -> None:
    if reply.status in good:
        return
    reason = _parse_reason(reply)
    if reply.status == 401:
        raise ActionFailed(
            "TOKEN_REFUSED",
            "Terraform Cloud does not accept the connector's token (401): give the connector a new one.",
        )
    if reply.status == 403:
        raise ActionFailed("ACCESS_DENIED", f"The connector's token may not do this to {what}: {reason}.")
    if reply.status == 404:
        raise ActionFailed(
            "NOT_FOUND",
            f"Terraform Cloud shows no such thing to this token: {what} (404). Check the name and the "
            f"permissions of the token's user or team.",
        )
    raise ActionFailed("TERRAFORM_CLOUD_REFUSED", f"Terraform Cloud refused {what}: {reason}.")


def _parse_reason(reply: OutboundResponse) -> str:
    """Why the API refused a request, as it says itself."""
    try:
        listed = json.loads(reply.body).get("errors")
    except (ValueError, AttributeError, RecursionError):
        listed = None
    said = [_format_error(error) for error in listed] if isinstance(listed, list) else []
    reasons = "; ".join(dict.fromkeys(one for one in said if one))
    return f"{reasons[:500]} ({reply.status})" if reasons else f"HTTP status {reply.status}"


def _format_error(error: Any) -> str:
    if not isinstance(error, Mapping):
        return str(error)[:200]
    return str(error.get("detail") or error.get("title") or "")[:200].rstrip(".")


def _parse_workspace(said: Document, organization: str) -> TerraformCloudWorkspace:
    data = _get_nested(said, "data")
    attributes = _get_nested(data, "attributes")
    allowed = _get_nested(attributes, "permissions")
    owner = _get_nested(data, "relationships", "organization", "data").get("id")
    return TerraformCloudWorkspace(
        str(data.get("id", "")),
        str(attributes.get("name", "")),
        str(owner or organization),
        bool(_get_nested(data, "relationships", "current-state-version", "data").get("id")),
        attributes.get("locked") is True,
        str(attributes.get("execution-mode") or "remote"),
        allowed.get("can-queue-run") is not False,
    )


def _get_nested(value: Any, *keys: str) -> Document:
    """Return a mapping inside of mappings; an empty one where the way does not lead to any."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


# Until then a request that nobody has heard of may still be on its way.
_CALL_DELIVERY_TIME: Final = timedelta(seconds=30)
_ACCEPTED_ANSWER: Final = {"status": 202, "body": "", "size": -1}


def confirm_terraform_cloud_call(
    context: StepContext, connector: str, call: CallRecord, workspace: str
) -> Confirmation:
    """Say whether a run was made, by its message, or an action taken, by where its run stands."""
    cloud = TerraformCloud(context, connector)
    path = [str(one) for one in call.params["path"]]
    if path == ["runs"]:
        return _confirm_run(cloud, call, workspace)
    if path[0] == "runs":
        return _confirm_run_action(cloud, call, path[1], path[-1])
    # Overriding what is overridden already is refused without harm.
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
