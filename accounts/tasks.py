"""Celery task that sends password reset mails."""

from typing import Any

from celery import shared_task

from accounts.authentication import passwords


@shared_task
def send_password_reset(*, email: str, **_: Any) -> None:
    """Write to whoever has this e-mail address how to set a new password."""
    passwords.send_reset_mail(email)
