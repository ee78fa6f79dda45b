"""Documents of events, and the rows of the outbox that hold them."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from guards.limits import NOTIFICATION_CAUSE_CHARACTERS, NOTIFICATION_HOURS, NOTIFICATION_TEXT_CHARACTERS
from notifications.channels.commit_statuses import find_commit_target
from notifications.channels.messages import build_message
from notifications.channels.registry import CHANNELS
from notifications.escaping import collapse_whitespace, escape_for_chat, truncate_line
from notifications.events import GitSyncSubject, NotificationEvent
from notifications.models import Notification, NotificationRule

DELIVERY_DEADLINE: Final = timedelta(hours=NOTIFICATION_HOURS)
OUTPUT_LINES, OUTPUT_LINE_CHARACTERS = 10, 500
GIT_SYNC_FAULTS = 10


def build_document(fact: NotificationEvent, key: UUID, at: datetime) -> dict[str, Any]:
    """Return the document of the request; every key is always present."""
    return {
        "id": str(key),
        "event": fact.event.value,
        "at": at.isoformat(),
        "text": render_text(fact),
        "scope": fact.scope.path,
        "org": fact.scope.org or None,
        "project": fact.scope.project or None,
        "status": fact.status or None,
        "cause": truncate_line(fact.cause, NOTIFICATION_CAUSE_CHARACTERS) or None,
        "advice": truncate_line(fact.advice, NOTIFICATION_CAUSE_CHARACTERS) or None,
        "pipeline": fact.pipeline or None,
        "execution": fact.execution or None,
        "services": list(fact.services),
        "environments": list(fact.environments),
        "delegate": fact.delegate or None,
        "git_sync": _build_git_sync(fact.git_sync) if fact.git_sync else None,
        "started_by": fact.started_by or None,
        "approved_by": list(fact.approved_by),
        "last_output": [
            truncate_line(line, OUTPUT_LINE_CHARACTERS) for line in fact.last_output[-OUTPUT_LINES:]
        ],
        "action_url": f"{settings.PUBLIC_URL}{fact.action_path}" if fact.action_path else None,
        "url": f"{settings.PUBLIC_URL}{fact.path}",
    }


def _build_git_sync(subject: GitSyncSubject) -> dict[str, Any]:
    """Return a Git sync with its first faults."""
    faults = [
        {**fault, "message": truncate_line(fault["message"], OUTPUT_LINE_CHARACTERS)}
        for fault in subject.faults[:GIT_SYNC_FAULTS]
    ]
    return {"name": subject.name, "commit": subject.commit or None, "faults": faults}


def render_text(fact: NotificationEvent) -> str:
    """Return the event in one line, escaped for chat tools."""
    # Joined to one line first: removed characters may separate markup of chat tools.
    return truncate_line(escape_for_chat(collapse_whitespace(fact.text)), NOTIFICATION_TEXT_CHARACTERS)


def _build_subject(fact: NotificationEvent, rule: NotificationRule, document: Mapping[str, Any]) -> str:
    """Return what a newer notification replaces an older one about: an execution, or a trouble by its key."""
    channel = CHANNELS[rule.kind]
    if channel.reports_commits or not channel.replaces_older:
        return fact.execution
    return sha256(build_message(document).key.encode()).hexdigest()


def build_notification(fact: NotificationEvent, rule: NotificationRule, now: datetime) -> Notification:
    """Return the row of one fact for one rule, not saved."""
    key = uuid.uuid4()
    document = build_document(fact, key, now)
    if CHANNELS[rule.kind].reports_commits and (target := find_commit_target(rule.kind, rule.options, fact)):
        document |= asdict(target) | {
            "deployments": list(fact.deployments),
            "execution_created_at": _format_moment(fact.execution_created_at),
        }
    return Notification(
        id=key,
        rule=rule,
        event=fact.event,
        text=render_text(fact),
        body=json.dumps(document, ensure_ascii=False),
        subject=_build_subject(fact, rule, document),
        created_at=now,
        due_at=now,
        deadline_at=now + DELIVERY_DEADLINE,
    )


def _format_moment(moment: datetime | None) -> str | None:
    """Return a moment as a text that sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds") if moment else None
