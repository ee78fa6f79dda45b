"""Celery tasks that prune sessions and send password reset mails."""

from typing import Any

from celery import shared_task

from accounts.authentication import passwords, sessions


@shared_task
def prune_sessions(**_: Any) -> None:
    """Delete what is left of sessions that have ended."""
    sessions.prune_expired_sessions()


@shared_task
def send_password_reset(*, email: str, **_: Any) -> None:
    """Write to whoever has this e-mail address how to set a new password."""
    passwords.send_reset_mail(email)
