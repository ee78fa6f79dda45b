"""E-mails that invite people to join."""

import logging
from email.errors import HeaderParseError

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string
from django.urls import reverse

from rbac.models import Invitation

_log = logging.getLogger(__name__)


def send_invitation(invitation: Invitation, token: str) -> bool:
    """Send the link to the recipient, and return whether the mail server accepted it."""
    link = settings.PUBLIC_URL + reverse("join-by-link", args=[token])
    content = {"invitation": invitation, "link": link}
    subject = " ".join(render_to_string("accounts/invitations/subject.txt", content).split())
    text = render_to_string("accounts/invitations/mail.txt", content)
    try:
        send_mail(subject, text, None, [invitation.email])
    # Exceptions of smtplib are OSErrors too.
    except (OSError, HeaderParseError, ValueError) as error:
        _log.warning("Could not send the email of invitation %s: %s", invitation.pk, type(error).__name__)
        return False
    return True
