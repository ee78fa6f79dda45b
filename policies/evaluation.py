"""Evaluation of the rules in force on the documents of a pipeline, a manifest or a run."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from django.db.models import QuerySet

from guards.limits import POLICY_EVALUATION_MILLISECONDS, POLICY_TOTAL_MILLISECONDS
from guards.text import find_text_problem
from policies.models import PolicyRule
from policies.subjects import EXAMPLES, OPEN_NAMES, Document
from rbac.models import Scope
from web.http.problems import BadInput

if TYPE_CHECKING:
    from types import ModuleType

    from policies.conditions import CelDocument

SLOW_MESSAGE: Final = f"all rules together took longer than {POLICY_TOTAL_MILLISECONDS}"


class PolicyViolated(BadInput):
    """Rules that refuse a pipeline, a manifest or a run; it has one error for each rule."""

    code = "policy_violated"


@dataclass(frozen=True)
class Violation:
    """Rule that a document does not meet; `reason` is set if the rule could not be evaluated."""

    rule: PolicyRule
    reason: str = ""

    @property
    def is_refusal(self) -> bool:
        return bool(self.rule.effect == PolicyRule.Effect.REFUSE)

    @property
    def message(self) -> str:
        """Return the sentence that names the rule, and what to do."""
        name = f"Policy rule {self.rule.name} ({self.rule.scope.path}/{self.rule.identifier})"
        if self.reason:
            return f"{name} cannot be evaluated, so it counts as not met: {self.reason}. {self.rule.message}"
        return f"{name}: {self.rule.message}"

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule.identifier,
            "scope": self.rule.scope.path,
            "effect": self.rule.effect,
            "message": self.message,
        }


class RulesInForce:
    """Enabled rules of a scope and those above it, for some subjects; one query."""

    def __init__(self, scope: Scope, subjects: Iterable[str]) -> None:
        self.rules = list(list_rules_in_force(scope).filter(subject__in=list(subjects)))

    def find_violations(
        self, subject: str, build_documents: Callable[[], Iterable[Document]]
    ) -> list[Violation]:
        """Return the rules that one of the documents violates, each once; none are built without rules."""
        rules = [rule for rule in self.rules if rule.subject == subject]
        return evaluate_rules(rules, list(build_documents())) if rules else []


def list_rules_in_force(scope: Scope) -> QuerySet[PolicyRule]:
    """Return the enabled rules of a scope and those above it that are not archived, the highest first."""
    rows = PolicyRule.objects.filter(
        scope__path__in=scope.ancestor_paths(), scope__archived_at=None, is_enabled=True
    )
    return rows.select_related("scope").order_by("scope__path", "identifier")


def evaluate_rules(rules: Sequence[PolicyRule], documents: Sequence[Document]) -> list[Violation]:
    """Return the rules that one of the documents violates, within one time limit for all of them."""
    conditions = load_conditions()
    deadline = time.thread_time() + POLICY_TOTAL_MILLISECONDS / 1000
    converted = [conditions.CelDocument(document) for document in documents]
    violations = []
    for rule in rules:
        for document in converted:
            if (violation := _evaluate_rule(rule, document, deadline)) is not None:
                violations.append(violation)
                break
    return violations


def require_no_refusals(violations: Iterable[Violation], subject: str) -> None:
    """Raise `PolicyViolated` with one error for each rule that refuses; `subject` names what is refused."""
    refusals = [violation for violation in violations if violation.is_refusal]
    if refusals:
        errors = [{"path": "", "message": violation.message} for violation in refusals]
        count = "A policy rule refuses" if len(refusals) == 1 else f"{len(refusals)} policy rules refuse"
        raise PolicyViolated(f"{count} this {subject}.", errors=errors)


def find_condition_problem(condition: str, subject: str) -> dict[str, Any] | None:
    """Return the error of a condition that no document of its subject could meet; None if there is none.

    A field that the example lacks is no error beside inputs or a manifest, which have fields of their own.
    """
    conditions = load_conditions()
    text = condition.replace("\r\n", "\n").strip()
    if not text or find_text_problem(text):
        return {"path": "condition", "message": "Enter a condition, such as artifact.tag != 'latest'."}
    try:
        conditions.evaluate_condition(text, conditions.CelDocument(EXAMPLES[subject]))
    except conditions.InvalidCondition as bad:
        return {"path": "condition", "message": bad.message, "line": bad.line, "column": bad.column}
    except conditions.UndeclaredName as bad:
        names = ", ".join(EXAMPLES[subject])
        return {"path": "condition", "message": f"The condition has an {bad}. Names: {names}."}
    except conditions.NotBoolean as bad:
        return {"path": "condition", "message": f"The condition is not usable: {bad}."}
    except conditions.MissingField as bad:
        return None if _reads_open_names(text) else _build_field_problem(subject, bad.name)
    except conditions.EvaluationFailed:
        return None
    return None


def _reads_open_names(condition: str) -> bool:
    paths = load_conditions().compile_condition(condition).paths
    return any(path.partition(".")[0] in OPEN_NAMES for path in paths)


def _build_field_problem(subject: str, name: str) -> dict[str, Any]:
    message = (
        f"A {subject.lower()} has no field {name}. Compare the condition with the example of its document."
    )
    return {"path": "condition", "message": message}


def _evaluate_rule(rule: PolicyRule, document: "CelDocument", deadline: float) -> Violation | None:
    remaining = (deadline - time.thread_time()) * 1000
    if remaining <= 0:
        return Violation(rule, SLOW_MESSAGE)
    conditions = load_conditions()
    milliseconds = min(POLICY_EVALUATION_MILLISECONDS, remaining)
    try:
        is_met = conditions.evaluate_condition(rule.condition, document, milliseconds=milliseconds)
    except conditions.InvalidCondition as invalid:
        return Violation(rule, invalid.message.rstrip("."))
    except conditions.EvaluationFailed as failed:
        return Violation(rule, str(failed))
    return None if is_met else Violation(rule)


def load_conditions() -> "ModuleType | Any":
    """Return the module of conditions: celpy takes 24 MiB, which most processes never need."""
    return import_module("policies.conditions")
