"""The API of Terraform Cloud (version 2), as far as runs need it, with its refusals in words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from steps.actions.base import ActionFailed, Rollout
from steps.actions.terraform_cloud.runs import Run, read_run
from steps.actions.work import Reply

PAGE: Final = 100
MOST_PAGES: Final = 20
_WITH_LOGS: Final = {"include": "plan,apply"}
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Workspace:
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

    rollout: Rollout
    connector: str

    def workspace(self, organization: str, name: str) -> Workspace:
        """The workspace of a name, or of an id that begins with ws-."""
        path: tuple[str, ...] = ("workspaces", name)
        if not name.startswith("ws-"):
            path = ("organizations", organization, *path)
        return _workspace(self.get(path, f"the workspace {name}"), organization)

    def run(self, run_id: str) -> Run:
        """A run with its plan and its apply."""
        return read_run(self.get(("runs", run_id), f"the run {run_id}", _WITH_LOGS))

    def runs(self, workspace: str, statuses: str = "", most: int = PAGE) -> list[Run]:
        """The newest runs of a workspace, the newest first; of these statuses where some are named."""
        query = {"page[size]": str(most)} | ({"filter[status]": statuses} if statuses else {})
        listed = self.get(("workspaces", workspace, "runs"), "the runs of the workspace", query).get("data")
        return [read_run({"data": one}) for one in listed or [] if isinstance(one, Mapping)]

    def create_run(self, body: Document, variables: Mapping[str, Mapping[str, str]]) -> Run:
        """Make a run; `variables` are `texts`, `hcl` and `secrets`, each a mapping."""
        given = {kind: dict(values) for kind, values in variables.items() if values}
        reply = self._ask({"method": "POST", "path": ["runs"], "body": body, **given})
        return read_run(_document(reply, "a run", (201,)))

    def act(self, path: tuple[str, ...], comment: str) -> bool:
        """Let something happen to a run or a policy; False where it is past that already."""
        body = {"comment": comment} if comment else {}
        reply = self._ask({"method": "POST", "path": list(path), "body": body})
        if reply.status == 409:
            return False
        _refuse(reply, " ".join(path[2:][-1:]) or "the action", (200, 201, 202, 204))
        return True

    def listed(self, path: tuple[str, ...], what: str) -> list[Document]:
        """All entries of a list, page by page; nothing of what is not there."""
        found: list[Document] = []
        page: Any = 1
        for _ in range(MOST_PAGES):
            query = {"page[size]": str(PAGE), "page[number]": str(page)}
            reply = self._ask({"path": list(path), "query": query})
            if reply.status == 404:
                return found
            said = _document(reply, what, (200,))
            found += [one for one in said.get("data") or [] if isinstance(one, Mapping)]
            page = _inside(said, "meta", "pagination").get("next-page")
            if not page:
                break
        return found

    def get(self, path: tuple[str, ...], what: str, query: Mapping[str, str] | None = None) -> Document:
        """A document of the API; `what` is what people call it."""
        reply = self._ask({"path": list(path), **({"query": dict(query)} if query else {})})
        return _document(reply, what, (200,))

    def _ask(self, params: Mapping[str, Any]) -> Reply:
        return self.rollout.work.ask_terraform(self.connector, params)


def told_run(run: Document) -> dict[str, Any]:
    """A run found again, as the API would have answered when it was made."""
    return {"status": 201, "body": json.dumps({"data": run}), "size": -1}


def _document(reply: Reply, what: str, good: tuple[int, ...]) -> Document:
    _refuse(reply, what, good)
    try:
        said = json.loads(reply.body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, Mapping):
        raise ActionFailed("NOT_TERRAFORM_CLOUD", f"What was answered for {what} is not of Terraform Cloud.")
    return said


def _refuse(reply: Reply, what: str, good: tuple[int, ...]) -> None:
    if reply.status in good:
        return
    reason = _reason(reply)
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
            f"Terraform Cloud shows no such thing to this token: {what} (404). Look at the name, and "
            "whether the token's user or team may read it.",
        )
    raise ActionFailed("TERRAFORM_CLOUD_REFUSED", f"Terraform Cloud refused {what}: {reason}.")


def _reason(reply: Reply) -> str:
    """Why the API refused a request, as it says itself."""
    try:
        listed = json.loads(reply.body).get("errors")
    except (ValueError, AttributeError, RecursionError):
        listed = None
    said = [_one(error) for error in listed] if isinstance(listed, list) else []
    reasons = "; ".join(dict.fromkeys(one for one in said if one))
    return f"{reasons[:500]} ({reply.status})" if reasons else f"HTTP status {reply.status}"


def _one(error: Any) -> str:
    if not isinstance(error, Mapping):
        return str(error)[:200]
    return str(error.get("detail") or error.get("title") or "")[:200].rstrip(".")


def _workspace(said: Document, organization: str) -> Workspace:
    data = _inside(said, "data")
    attributes = _inside(data, "attributes")
    allowed = _inside(attributes, "permissions")
    owner = _inside(data, "relationships", "organization", "data").get("id")
    return Workspace(
        str(data.get("id", "")),
        str(attributes.get("name", "")),
        str(owner or organization),
        bool(_inside(data, "relationships", "current-state-version", "data").get("id")),
        attributes.get("locked") is True,
        str(attributes.get("execution-mode") or "remote"),
        allowed.get("can-queue-run") is not False,
    )


def _inside(value: Any, *keys: str) -> Document:
    """A mapping inside of mappings; an empty one where the way does not lead to any."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
