"""What access leaves to the workers."""

from typing import Any

from celery import shared_task

from accounts.people import passwords, sessions


@shared_task
def prune_sessions(**_: Any) -> None:
    """Delete what is left of sessions that have ended."""
    sessions.prune()


@shared_task
def send_reset(*, email: str, **_: Any) -> None:
    """Write to whoever has this e-mail address how to set a new password."""
    passwords.send_reset(email)
