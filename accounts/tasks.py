"""Celery task that sends password reset mails."""

from typing import Any

from celery import shared_task

from accounts.authentication import passwords


@shared_task
def send_password_reset(*, email: str, **_: Any) -> None:
    """Send a password reset link to the users with this e-mail address."""
    passwords.send_reset_mail(email)
