"""Operations on notification rules and notifications."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import F

from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from guards.limits import (
    NOTIFICATION_DIGEST_MINUTES,
    NOTIFICATION_RULES,
    NOTIFICATION_SECRET_CHARACTERS,
)
from guards.text import find_text_problem
from notifications.channels.base import ChannelSettings
from notifications.channels.registry import CHANNELS
from notifications.documents import DELIVERY_DEADLINE, build_notification
from notifications.event_texts import describe_test
from notifications.events import SUBSCRIBABLE_EVENTS, EventType, NotificationEvent
from notifications.filters import Filters, build_filters, list_filter_problems
from notifications.models import Notification, NotificationRule
from notifications.repository_tokens import has_reference, list_token_problems
from notifications.rule_checks import list_channel_problems
from notifications.tasks import request_send
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict, VersionConflict

VIEW: Final = "core_notificationrule_view"
EDIT: Final = "core_notificationrule_edit"
DELETE: Final = "core_notificationrule_delete"
WAITING, FAILED = Notification.Status.WAITING, Notification.Status.FAILED
RULE_DISABLED_REASON: Final = "The notification rule was disabled."
_EVENTS: Final = tuple(value for value, _ in SUBSCRIBABLE_EVENTS)


@dataclass(frozen=True)
class NotificationRuleSpec:
    """Fields of a rule except its identifier and kind.

    An empty `url` or `secret` keeps the current one; `unsigned` removes the secret. `options` are those of
    the channel. A filter that is empty or missing matches everything.
    """

    name: str
    events: tuple[str, ...]
    url: str = ""
    secret: str = ""
    unsigned: bool = False
    is_enabled: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    filters: Filters = field(default_factory=dict)
    digest_minutes: int = 0


def create_rule(
    *,
    actor: User,
    scope: Scope,
    identifier: str,
    spec: NotificationRuleSpec,
    kind: str = NotificationRule.Kind.WEBHOOK,
) -> NotificationRule:
    """Create a rule. Raises `BadInput`, or `Conflict` for a used identifier or too many rules."""
    require(actor, EDIT, scope)
    require_valid_identifier(identifier)
    rule = NotificationRule(scope=scope, identifier=identifier, kind=kind)
    _apply_spec(rule, spec, actor)
    if NotificationRule.objects.filter(scope=scope).count() >= NOTIFICATION_RULES:
        raise Conflict(f"A scope can have {NOTIFICATION_RULES}. Delete one that is no longer needed.")
    try:
        with transaction.atomic():
            rule.save()
            record_audit_entry(
                actor=actor, action="notificationrule.create", thing=rule, after=build_audit_values(rule)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("notification rule", identifier) from exc
    return rule


def update_rule(
    *, actor: User, rule: NotificationRule, spec: NotificationRuleSpec, version: int | None = None
) -> NotificationRule:
    """Update a rule; waiting notifications go to the new address, or nowhere if the rule is disabled.

    Raises `BadInput`, and `VersionConflict` if `version` is not the current one.
    """
    require(actor, EDIT, rule)
    before = build_audit_values(rule)
    _apply_spec(rule, spec, actor)
    with transaction.atomic():
        current = NotificationRule.objects.filter(pk=rule.pk, version=version or rule.version)
        if not current.update(version=F("version") + 1):
            raise VersionConflict(
                "Another user changed this rule after you loaded it. Reload it, then apply your change."
            )
        rule.version = (version or rule.version) + 1
        # Earlier failures do not apply to the changed rule.
        rule.failures, rule.paused_until, rule.next_digest_at = 0, None, None
        rule.save()
        if not rule.is_enabled:
            waiting = Notification.objects.filter(rule=rule, status=WAITING)
            waiting.update(
                status=FAILED, ended_at=get_database_time(), claimed_until=None, reason=RULE_DISABLED_REASON
            )
        after = build_audit_values(rule) | {"new_address": bool(spec.url), "new_secret": bool(spec.secret)}
        record_audit_entry(
            actor=actor, action="notificationrule.update", thing=rule, before=before, after=after
        )
    return rule


def delete_rule(*, actor: User, rule: NotificationRule) -> None:
    """Delete a rule with its notifications; one in delivery may still arrive."""
    require(actor, DELETE, rule)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="notificationrule.delete", thing=rule, before=build_audit_values(rule)
        )
        rule.delete()


def create_test_notification(*, actor: User, rule: NotificationRule) -> Notification:
    """Write a test for this rule alone, turned on or off, and send it at once."""
    require(actor, EDIT, rule)
    text = describe_test(rule.name, actor.get_username())
    fact = NotificationEvent(EventType.TEST, rule.scope, text, path="/notifications/")
    with transaction.atomic():
        made = build_notification(fact, rule, get_database_time())
        made.released_at = made.created_at
        made.save(force_insert=True)
        NotificationRule.objects.filter(pk=rule.pk).update(paused_until=None)
        record_audit_entry(
            actor=actor, action="notificationrule.test", thing=rule, after={"notification": str(made.pk)}
        )
        transaction.on_commit(request_send, robust=True)
    return made


def resend_notification(*, actor: User, notification: Notification) -> Notification:
    """Resend a notification at once with the same id and new attempts.

    Raises `Conflict` during a delivery.
    """
    require(actor, EDIT, notification.rule)
    now = get_database_time()
    with transaction.atomic():
        idle = Notification.objects.filter(pk=notification.pk).exclude(status=WAITING, claimed_until__gt=now)
        changed = idle.update(
            status=WAITING,
            attempts=0,
            due_at=now,
            deadline_at=now + DELIVERY_DEADLINE,
            claimed_until=None,
            ended_at=None,
            released_at=now,
        )
        if not changed:
            raise Conflict("A delivery is in progress. Wait for its result.")
        NotificationRule.objects.filter(pk=notification.rule_id).update(paused_until=None)
        after = {"rule": notification.rule.identifier, "event": notification.event}
        record_audit_entry(actor=actor, action="notification.send_again", thing=notification, after=after)
        transaction.on_commit(request_send, robust=True)
    notification.refresh_from_db()
    return notification


def hold_waiting_notifications(reason: str, now: datetime) -> int:
    """Fail all waiting notifications with a reason, and return their number; people may send them again."""
    waiting = Notification.objects.filter(status=WAITING)
    return waiting.update(status=Notification.Status.FAILED, ended_at=now, claimed_until=None, reason=reason)


def build_audit_values(rule: NotificationRule) -> dict[str, Any]:
    """Return the audited values of a rule, without its address, which may contain a token, and its secret."""
    return {
        "identifier": rule.identifier,
        "name": rule.name,
        "kind": rule.kind,
        "events": list(rule.events),
        "options": dict(rule.options),
        "filters": dict(rule.filters),
        "digest_minutes": rule.digest_minutes,
        "host": rule.host,
        "is_signed": rule.is_signed,
        "is_enabled": rule.is_enabled,
    }


def _apply_spec(rule: NotificationRule, spec: NotificationRuleSpec, actor: User) -> None:
    url = spec.url or rule.url
    # A token is never sent to another address than the one that it was entered for.
    kept_token = rule.secret if rule.pk and not spec.unsigned and url == rule.url else ""
    errors = [
        *list_channel_problems(rule, spec),
        *list_token_problems(rule, spec.options, url=url, token=spec.secret or kept_token, actor=actor),
        *_validate_events(spec),
        *_validate_secret(spec),
        *list_filter_problems(spec.filters),
        *_validate_digest(rule, spec),
    ]
    if errors:
        raise BadInput("The notification rule is not valid.", errors=errors)
    channel = CHANNELS[rule.kind]
    rule.name = validate_name(spec.name)
    rule.events = [value for value in _EVENTS if value in spec.events]
    rule.is_enabled = spec.is_enabled
    rule.filters = build_filters(spec.filters)
    rule.digest_minutes = spec.digest_minutes
    rule.options = {option.name: spec.options.get(option.name, "") for option in channel.options}
    if spec.url:
        rule.url = spec.url
    if spec.secret or spec.unsigned or has_reference(rule.options):
        rule.secret = "" if spec.unsigned or has_reference(rule.options) else spec.secret
        rule.is_signed = bool(rule.secret) and rule.kind == NotificationRule.Kind.WEBHOOK
    if spec.url or channel.options:
        rule.host = channel.describe_target(ChannelSettings(rule.url, "", rule.options))


def _validate_events(spec: NotificationRuleSpec) -> list[dict[str, str]]:
    if unknown := sorted(set(spec.events) - set(_EVENTS)):
        message = f"Unknown event {unknown[0][:64]}. Known events: {', '.join(_EVENTS)}."
        return [{"path": "events", "message": message}]
    return [] if spec.events else [{"path": "events", "message": "Select at least one event."}]


def _validate_digest(rule: NotificationRule, spec: NotificationRuleSpec) -> list[dict[str, str]]:
    path = "digest_minutes"
    if not 0 <= spec.digest_minutes <= NOTIFICATION_DIGEST_MINUTES:
        return [{"path": path, "message": f"Enter at most {NOTIFICATION_DIGEST_MINUTES}, or 0 for none."}]
    channel = CHANNELS.get(rule.kind)
    if spec.digest_minutes and channel is not None and not channel.takes_digests:
        return [{"path": path, "message": "This kind of channel needs each event. Enter 0."}]
    return []


def _validate_secret(spec: NotificationRuleSpec) -> list[dict[str, str]]:
    if spec.secret and spec.unsigned:
        return [{"path": "secret", "message": "Enter a signing secret or remove it, not both."}]
    if len(spec.secret) > NOTIFICATION_SECRET_CHARACTERS or find_text_problem(spec.secret):
        message = f"A signing secret must have at most {NOTIFICATION_SECRET_CHARACTERS} and no NUL character."
        return [{"path": "secret", "message": message}]
    return []
