"""What people do with notification rules, and with what was told."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.db.models import F

from connectors.operations.naming import check_identifier, clean_name, taken
from guards.limits import NOTIFICATION_RULES, NOTIFICATION_SECRET_CHARACTERS
from guards.places import url_problem
from guards.text import text_fault
from notifications.facts import CHOOSABLE, Event, Fact
from notifications.models import Notification, NotificationRule
from notifications.outbox import GIVE_UP, written
from notifications.tasks import send_soon
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import require
from web.clock import database_now
from web.outgoing import own_reach
from web.problems import BadInput, ChangedMeanwhile, Conflict

VIEW: Final = "core_notificationrule_view"
EDIT: Final = "core_notificationrule_edit"
DELETE: Final = "core_notificationrule_delete"
WAITING, FAILED = Notification.Status.WAITING, Notification.Status.FAILED
OFF: Final = "The rule was turned off."
_KNOWN: Final = tuple(value for value, _ in CHOOSABLE)


@dataclass(frozen=True)
class RuleSpec:
    """Everything that can be said of a rule beside its identifier.

    An empty `url` or `secret` keeps the one there is; `unsigned` takes the secret away.
    """

    name: str
    events: tuple[str, ...]
    url: str = ""
    secret: str = ""
    unsigned: bool = False
    is_enabled: bool = True


def create_rule(*, actor: User, scope: Scope, identifier: str, spec: RuleSpec) -> NotificationRule:
    """Add a rule. Raises `BadInput`, or `Conflict` where the identifier is taken or there are too many."""
    require(actor, EDIT, scope)
    check_identifier(identifier)
    rule = NotificationRule(scope=scope, identifier=identifier)
    _fill(rule, spec)
    if NotificationRule.objects.filter(scope=scope).count() >= NOTIFICATION_RULES:
        raise Conflict(f"A scope may have {NOTIFICATION_RULES}. Delete one that is not needed any more.")
    try:
        with transaction.atomic():
            rule.save()
            record(actor=actor, action="notificationrule.create", thing=rule, after=shown(rule))
    except IntegrityError as exc:
        raise taken("notification rule", identifier) from exc
    return rule


def update_rule(
    *, actor: User, rule: NotificationRule, spec: RuleSpec, version: int | None = None
) -> NotificationRule:
    """Change a rule; what waits goes to the new address, and not at all where it is turned off.

    Raises `BadInput`, and `ChangedMeanwhile` where `version` is not the current one any more.
    """
    require(actor, EDIT, rule)
    before = shown(rule)
    _fill(rule, spec)
    with transaction.atomic():
        current = NotificationRule.objects.filter(pk=rule.pk, version=version or rule.version)
        if not current.update(version=F("version") + 1):
            raise ChangedMeanwhile("Somebody changed this rule after you loaded it.")
        rule.version = (version or rule.version) + 1
        # What failed before says nothing of the rule as it is now.
        rule.failures, rule.held_until = 0, None
        rule.save()
        if not rule.is_enabled:
            waiting = Notification.objects.filter(rule=rule, status=WAITING)
            waiting.update(status=FAILED, ended_at=database_now(), claimed_until=None, reason=OFF)
        after = shown(rule) | {"new_address": bool(spec.url), "new_secret": bool(spec.secret)}
        record(actor=actor, action="notificationrule.update", thing=rule, before=before, after=after)
    return rule


def delete_rule(*, actor: User, rule: NotificationRule) -> None:
    """Remove a rule, and with it what it was told; what is on its way may still arrive."""
    require(actor, DELETE, rule)
    with transaction.atomic():
        record(actor=actor, action="notificationrule.delete", thing=rule, before=shown(rule))
        rule.delete()


def send_test(*, actor: User, rule: NotificationRule) -> Notification:
    """Write a test for this rule alone, turned on or off, and send it at once."""
    require(actor, EDIT, rule)
    text = f"{actor.get_username()} tests the notification rule {rule.name}. Nothing happened."
    fact = Fact(Event.TEST, rule.scope, text, path="/notifications/")
    with transaction.atomic():
        made = written(fact, rule, database_now())
        made.save(force_insert=True)
        NotificationRule.objects.filter(pk=rule.pk).update(held_until=None)
        record(actor=actor, action="notificationrule.test", thing=rule, after={"notification": str(made.pk)})
        transaction.on_commit(send_soon, robust=True)
    return made


def send_again(*, actor: User, notification: Notification) -> Notification:
    """Send it once more, at once and under the same id; its attempts begin anew.

    Raises `Conflict` while it is being sent.
    """
    require(actor, EDIT, notification.rule)
    now = database_now()
    with transaction.atomic():
        idle = Notification.objects.filter(pk=notification.pk).exclude(status=WAITING, claimed_until__gt=now)
        changed = idle.update(
            status=WAITING,
            attempts=0,
            due_at=now,
            give_up_at=now + GIVE_UP,
            claimed_until=None,
            ended_at=None,
        )
        if not changed:
            raise Conflict("It is being sent just now. Wait for what comes of it.")
        NotificationRule.objects.filter(pk=notification.rule_id).update(held_until=None)
        after = {"rule": notification.rule.identifier, "event": notification.event}
        record(actor=actor, action="notification.send_again", thing=notification, after=after)
        transaction.on_commit(send_soon, robust=True)
    notification.refresh_from_db()
    return notification


def shown(rule: NotificationRule) -> dict[str, Any]:
    """What the audit trail keeps of a rule: not its address, which may hold a token, nor its secret."""
    return {
        "identifier": rule.identifier,
        "name": rule.name,
        "kind": rule.kind,
        "events": list(rule.events),
        "host": rule.host,
        "is_signed": rule.is_signed,
        "is_enabled": rule.is_enabled,
    }


def _fill(rule: NotificationRule, spec: RuleSpec) -> None:
    if errors := [*_address_errors(rule, spec), *_event_errors(spec), *_secret_errors(spec)]:
        raise BadInput("The notification rule cannot be saved like this.", errors=errors)
    rule.name = clean_name(spec.name)
    rule.events = [value for value in _KNOWN if value in spec.events]
    rule.is_enabled = spec.is_enabled
    if spec.url:
        rule.url, rule.host = spec.url, host_of(spec.url)
    if spec.secret or spec.unsigned:
        rule.secret = "" if spec.unsigned else spec.secret
        rule.is_signed = bool(rule.secret)


def host_of(url: str) -> str:
    """What people may see of an address: how it begins, up to where a token could stand."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"[:255]


def _address_errors(rule: NotificationRule, spec: RuleSpec) -> list[dict[str, str]]:
    if not spec.url:
        return [] if rule.pk else [{"path": "url", "message": "Give the address that is to be told."}]
    if problem := url_problem(spec.url, own_reach()):
        return [{"path": "url", "message": f"{problem[:1].upper()}{problem[1:]}."}]
    return []


def _event_errors(spec: RuleSpec) -> list[dict[str, str]]:
    if unknown := sorted(set(spec.events) - set(_KNOWN)):
        message = f"There is no event {unknown[0][:64]}; there are {', '.join(_KNOWN)}."
        return [{"path": "events", "message": message}]
    return [] if spec.events else [{"path": "events", "message": "Choose one event at least."}]


def _secret_errors(spec: RuleSpec) -> list[dict[str, str]]:
    if spec.secret and spec.unsigned:
        return [{"path": "secret", "message": "Give a secret, or take it away, not both."}]
    if len(spec.secret) > NOTIFICATION_SECRET_CHARACTERS or text_fault(spec.secret):
        message = f"A secret has {NOTIFICATION_SECRET_CHARACTERS} at most, and no NUL."
        return [{"path": "secret", "message": message}]
    return []
