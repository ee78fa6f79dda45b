"""Notification rules, and the outbox of notifications."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q

from notifications.events import EventType
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope
from rbac.models.scopes import IDENTIFIER_PATTERN, validate_identifier


class NotificationRule(models.Model):
    """Rule that sends the events of a scope and the scopes below it.

    The address may contain a token, so it is encrypted; `host` is the displayed part. `options` are the
    values of the channel that are no secrets, by name.
    """

    class Kind(models.TextChoices):
        """Kind of channel."""

        WEBHOOK = "Webhook", "Webhook"
        SLACK = "Slack", "Slack"
        TEAMS = "Teams", "Microsoft Teams"
        EMAIL = "Email", "E-mail"
        PAGERDUTY = "PagerDuty", "PagerDuty"
        OPSGENIE = "Opsgenie", "Opsgenie"
        DISCORD = "Discord", "Discord"
        GOOGLE_CHAT = "GoogleChat", "Google Chat"
        APPRISE = "Apprise", "Apprise URL"
        GITHUB = "GitHub", "GitHub"
        GITLAB = "GitLab", "GitLab"

    RESOURCE_TYPE: ClassVar[str] = "notificationrule"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"notificationrule": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="notification_rules")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    kind = models.CharField(max_length=16, choices=Kind, default=Kind.WEBHOOK)
    events = models.JSONField(default=list)
    url = EncryptedTextField(bound_to=["scope_id", "identifier"])
    host = models.CharField(max_length=255)
    options = models.JSONField(default=dict, db_default={})
    # Values by filter (notifications/filters.py); a filter that is missing matches everything.
    filters = models.JSONField(default=dict, db_default={})
    # Signing secret, or key of the service, if any.
    secret = EncryptedTextField(bound_to=["scope_id", "identifier"], blank=True, default="")
    is_signed = models.BooleanField(default=False)
    # At most one message in so many minutes; 0 sends each event.
    digest_minutes = models.PositiveIntegerField(default=0, db_default=0)
    next_digest_at = models.DateTimeField(null=True, editable=False)
    is_enabled = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)
    # Consecutive failed attempts, and the end of the pause that they cause.
    failures = models.PositiveIntegerField(default=0, editable=False)
    paused_until = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="notification_rule_unique_in_scope"),
            models.CheckConstraint(
                condition=Q(identifier__regex=IDENTIFIER_PATTERN),
                name="notification_rule_identifier_is_valid",
            ),
        ]

    def __str__(self) -> str:
        return self.identifier


class Notification(models.Model):
    """Event for one rule, written in the event's transaction and sent until it is accepted.

    `sends` counts all claims and is the fencing token; `attempts` counts those since the last resend.
    """

    class Status(models.TextChoices):
        """Status of a notification."""

        WAITING = "WAITING", "Waiting"
        DELIVERED = "DELIVERED", "Delivered"
        FAILED = "FAILED", "Failed"
        SUMMARIZED = "SUMMARIZED", "Summarized"

    RESOURCE_TYPE: ClassVar[str] = "notification"
    SCOPE_PATH: ClassVar[str] = "rule__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"notificationrule": "rule__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    rule = models.ForeignKey(NotificationRule, on_delete=models.CASCADE, related_name="notifications")
    event = models.CharField(max_length=32, choices=EventType)
    # What it is about, an execution or a trouble: where the newest state counts, it replaces older ones.
    subject = models.CharField(max_length=64, blank=True, default="", db_default="")
    text = models.CharField(max_length=1024)
    # The exact bytes of every attempt.
    body = models.TextField()
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    sends = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)
    # When it may be sent, for a rule with digests: it is one, or needs none.
    released_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    response_status = models.PositiveIntegerField(null=True)
    reason = models.CharField(max_length=512, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["rule", "due_at"], name="notification_due", condition=Q(status="WAITING")),
            models.Index(fields=["rule", "-created_at", "-id"], name="notification_newest_of_rule"),
            models.Index(fields=["created_at"], name="notification_oldest"),
        ]

    def __str__(self) -> str:
        return f"{self.event} for {self.rule_id}"

    @property
    def scope(self) -> Scope:
        return self.rule.scope


class OutboxLease(models.Model):
    """Single row with the lease of the sending worker: a hanging receiver blocks one worker only."""

    lease_expires_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return "courier"
