"""What Terraform Cloud says of a run: where it stands, and what may be done with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# Nothing more comes of these.
FINAL: Final = (
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
UNDECIDED: Final = ("policy_override", "post_plan_awaiting_decision", "pre_apply_awaiting_decision")
CONFIRMED: Final = (
    "confirmed",
    "apply_queued",
    "queuing_apply",
    "pre_apply_running",
    "pre_apply_completed",
    "applying",
    "post_apply_running",
    "post_apply_completed",
)
# Of an apply that has begun, something may have come.
_BEGUN: Final = ("running", "errored", "canceled", "finished")
_WORDS: Final = {
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
class Phase:
    """The plan or the apply of a run; `counts` are additions, changes and destructions."""

    id: str = ""
    status: str = ""
    log_url: str = field(default="", repr=False)
    counts: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Run:
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
    plan: Phase = Phase()
    apply: Phase = Phase()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_over(self) -> bool:
        return self.status in FINAL

    @property
    def is_undecided(self) -> bool:
        return self.status in UNDECIDED

    @property
    def may_have_applied(self) -> bool:
        """Whether its apply began."""
        return self.status == "applied" or self.apply.status in _BEGUN

    @property
    def words(self) -> str:
        """Where it stands, in words."""
        return _WORDS.get(self.status, f"is {self.status.replace('_', ' ')}")


def read_run(said: Mapping[str, Any]) -> Run:
    """A run from a document of the API; what is missing is empty."""
    data = _mapping(said.get("data"))
    attributes, relations = _mapping(data.get("attributes")), _mapping(data.get("relationships"))
    actions = _mapping(attributes.get("actions"))
    beside = {str(one.get("id")): one for one in said.get("included") or [] if isinstance(one, Mapping)}
    return Run(
        str(data.get("id", "")),
        str(attributes.get("status", "")),
        str(attributes.get("message") or ""),
        attributes.get("has-changes") is True,
        actions.get("is-confirmable") is True,
        actions.get("is-discardable") is True,
        actions.get("is-cancelable") is True,
        attributes.get("is-destroy") is True,
        _related(relations, "configuration-version"),
        _variables(attributes.get("variables")),
        _phase(_related(relations, "plan"), beside),
        _phase(_related(relations, "apply"), beside),
        data,
    )


def _phase(id_: str, beside: Mapping[str, Mapping[str, Any]]) -> Phase:
    attributes = _mapping(beside.get(id_, {}).get("attributes"))
    counts = [attributes.get(f"resource-{name}") for name in ("additions", "changes", "destructions")]
    added, changed, destroyed = (one if isinstance(one, int) else 0 for one in counts)
    url = str(attributes.get("log-read-url") or "")
    return Phase(id_, str(attributes.get("status") or ""), url, (added, changed, destroyed))


def _related(relations: Mapping[str, Any], name: str) -> str:
    return str(_mapping(_mapping(relations.get(name)).get("data")).get("id") or "")


def _variables(listed: Any) -> dict[str, str]:
    found = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return {str(one.get("key")): str(one.get("value", "")) for one in found}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
