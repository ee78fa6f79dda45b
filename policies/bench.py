"""Test bench of conditions: results on stored or pasted documents, without any effect."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.limits import POLICY_DOCUMENT_CHARACTERS, POLICY_TOTAL_MILLISECONDS
from policies.document_sources import NamedDocument, get_document_source
from policies.evaluation import evaluate_rules, load_conditions
from policies.models import PolicyRule
from policies.operations import VIEW
from rbac.models import Scope, User
from rbac.policy import Forbidden, can_anywhere
from web.http.problems import BadInput

RECENT_RUNS: Final = 20
MOST_VALUE_CHARACTERS: Final = 500


@dataclass(frozen=True)
class NamedValue:
    """Value of the document that a condition names, as JSON; empty if the document does not have it."""

    name: str
    value: str


@dataclass(frozen=True)
class EvaluationResult:
    """Result of a condition on one document; `reason` is set if it has none."""

    title: str
    is_met: bool
    reason: str
    values: tuple[NamedValue, ...]
    milliseconds: float


@dataclass(frozen=True)
class RecentRuns:
    """Number of recent executions that meet a rule, of those that were evaluated in time."""

    met: int
    total: int


def require_bench_access(actor: User) -> None:
    """Raise `Forbidden` for users who can view no policy rules."""
    if not can_anywhere(actor, VIEW):
        raise Forbidden(VIEW)


def evaluate_on_documents(condition: str, documents: Sequence[NamedDocument]) -> list[EvaluationResult]:
    """Return the result of a condition on each document. Raises `BadInput` if it cannot be parsed."""
    conditions = load_conditions()
    text = condition.replace("\r\n", "\n").strip()
    try:
        paths = conditions.compile_condition(text).paths
    except conditions.InvalidCondition as bad:
        error = {"path": "condition", "message": bad.message, "line": bad.line, "column": bad.column}
        raise BadInput("The condition cannot be evaluated.", errors=[error]) from bad
    return [_evaluate(text, paths, named) for named in documents]


def load_documents(actor: User, subject: str, resource: str) -> Sequence[NamedDocument]:
    """Return the documents of a stored resource. Raises `NotVisible`."""
    return get_document_source(subject).load(actor, resource)


def parse_document(text: str) -> NamedDocument:
    """Return a pasted document. Raises `BadInput`."""
    try:
        value = parse_json(text, max_bytes=POLICY_DOCUMENT_CHARACTERS)
    except InputRejected as rejected:
        error = {"path": "document", "message": rejected.problem.display_message}
        raise BadInput("The document is not valid.", errors=[error]) from rejected
    return build_pasted_document(value)


def build_pasted_document(value: Any) -> NamedDocument:
    """Return a parsed document. Raises `BadInput`."""
    if not isinstance(value, Mapping):
        error = {"path": "document", "message": "Enter a JSON object."}
        raise BadInput("The document is not valid.", errors=[error])
    return NamedDocument("Document", value)


def count_recent_runs(actor: User, rule: PolicyRule) -> RecentRuns | None:
    """Return how many recent executions in a rule's scope meet it; None for a rule without executions.

    The newest are evaluated first. A slow condition is evaluated on fewer: a person waits for the result.
    """
    list_recent = get_document_source(rule.subject).list_recent
    if list_recent is None:
        return None
    deadline = time.thread_time() + POLICY_TOTAL_MILLISECONDS / 1000
    results: list[bool] = []
    for documents in list_recent(actor, rule.scope, RECENT_RUNS):
        if time.thread_time() > deadline:
            break
        results.append(not evaluate_rules([rule], [named.document for named in documents]))
    return RecentRuns(sum(results), len(results)) if results else None


def _evaluate(text: str, paths: Sequence[str], named: NamedDocument) -> EvaluationResult:
    conditions = load_conditions()
    start = time.perf_counter()
    is_met, reason = False, ""
    try:
        is_met = conditions.evaluate_condition(text, conditions.CelDocument(named.document))
    except (conditions.EvaluationFailed, ValueError) as failed:
        reason = f"The condition cannot be evaluated: {str(failed).rstrip('.')}."
    milliseconds = round((time.perf_counter() - start) * 1000, 1)
    values = tuple(
        NamedValue(path, _read_value(named.document, path))
        for path in paths
        if path.partition(".")[0] in named.document
    )
    return EvaluationResult(named.title, is_met, reason, values, milliseconds)


def _read_value(document: Any, path: str) -> str:
    value = document
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return ""
        value = value[name]
    text = json.dumps(value)
    return text if len(text) <= MOST_VALUE_CHARACTERS else f"{text[:MOST_VALUE_CHARACTERS]}…"


def list_choices(actor: User, subject: str, scope: Scope) -> Sequence[tuple[str, str]]:
    """Return ids and titles of the resources that a rule of a subject can be evaluated on."""
    return get_document_source(subject).list_choices(actor, scope)
