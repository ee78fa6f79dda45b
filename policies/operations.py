"""Operations on policy rules."""

from dataclasses import dataclass
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from guards.limits import POLICY_MESSAGE_CHARACTERS, POLICY_RULES
from guards.text import find_text_problem
from policies.evaluation import find_condition_problem, list_rules_in_force
from policies.models import PolicyRule
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import Principal, can, require
from web.http.problems import BadInput, Conflict, VersionConflict

VIEW: Final = "core_policyrule_view"
EDIT: Final = "core_policyrule_edit"
DELETE: Final = "core_policyrule_delete"
_AUDITED: Final = ("identifier", "name", "subject", "condition", "message", "effect", "is_enabled")


@dataclass(frozen=True)
class PolicyRuleSpec:
    """Fields of a rule except its identifier."""

    name: str
    subject: str
    condition: str
    message: str
    effect: str = PolicyRule.Effect.WARN
    is_enabled: bool = True


def create_rule(*, actor: User, scope: Scope, identifier: str, spec: PolicyRuleSpec) -> PolicyRule:
    """Create a rule. Raises `BadInput`, or `Conflict` for a used identifier or too many rules."""
    require(actor, EDIT, scope)
    require_valid_identifier(identifier)
    rule = PolicyRule(scope=scope, identifier=identifier)
    _apply_spec(rule, spec)
    if PolicyRule.objects.filter(scope=scope).count() >= POLICY_RULES:
        raise Conflict(f"A scope can have {POLICY_RULES}. Delete one that is no longer needed.")
    try:
        with transaction.atomic():
            rule.save()
            record_audit_entry(
                actor=actor, action="policyrule.create", thing=rule, after=_build_audit_values(rule)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("policy rule", identifier) from exc
    return rule


def update_rule(
    *, actor: User, rule: PolicyRule, spec: PolicyRuleSpec, version: int | None = None
) -> PolicyRule:
    """Update a rule. What is stored already stays as it is; the rule applies to the next save or run.

    Raises `BadInput`, and `VersionConflict` if `version` is not the current one.
    """
    require(actor, EDIT, rule)
    before = _build_audit_values(rule)
    _apply_spec(rule, spec)
    with transaction.atomic():
        current = PolicyRule.objects.filter(pk=rule.pk, version=version or rule.version)
        if not current.update(version=F("version") + 1):
            raise VersionConflict(
                "Another user changed this rule after you loaded it. Reload it, then apply your change."
            )
        rule.version = (version or rule.version) + 1
        rule.save()
        after = _build_audit_values(rule)
        record_audit_entry(actor=actor, action="policyrule.update", thing=rule, before=before, after=after)
    return rule


def delete_rule(*, actor: User, rule: PolicyRule) -> None:
    """Delete a rule."""
    require(actor, DELETE, rule)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="policyrule.delete", thing=rule, before=_build_audit_values(rule)
        )
        rule.delete()


def list_visible_rules_above(actor: Principal, scope: Scope) -> QuerySet[PolicyRule]:
    """Return the rules in force in a scope that belong to those above it, if the actor can view rules in it.

    A pipeline or run that they refuse names them anyway.
    """
    rules = list_rules_in_force(scope).exclude(scope=scope)
    return rules if can(actor, VIEW, scope) else rules.none()


def _build_audit_values(rule: PolicyRule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in _AUDITED}


def _apply_spec(rule: PolicyRule, spec: PolicyRuleSpec) -> None:
    if errors := _list_errors(spec):
        raise BadInput("The policy rule is not valid.", errors=errors)
    rule.name = validate_name(spec.name)
    rule.subject, rule.effect, rule.is_enabled = spec.subject, spec.effect, spec.is_enabled
    rule.condition, rule.message = spec.condition.replace("\r\n", "\n").strip(), spec.message.strip()


def _list_errors(spec: PolicyRuleSpec) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = []
    for path, value, choices in (
        ("subject", spec.subject, PolicyRule.Subject.values),
        ("effect", spec.effect, PolicyRule.Effect.values),
    ):
        if value not in choices:
            errors.append({"path": path, "message": f"Use one of {', '.join(choices)}."})
    message = spec.message.strip()
    if not message or len(message) > POLICY_MESSAGE_CHARACTERS or find_text_problem(message):
        text = f"Enter what to do if the rule is not met, with {POLICY_MESSAGE_CHARACTERS} at most."
        errors.append({"path": "message", "message": text})
    if not errors and (problem := find_condition_problem(spec.condition, spec.subject)):
        errors.append(problem)
    return errors
