"""E-mail channel: by the installation's mail server, or by one that the rule names."""

import smtplib
import socket
from collections.abc import Callable
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.core.mail.backends.smtp import EmailBackend
from django.core.validators import validate_email

from guards.address_policy import AddressPolicy, AddressRefused
from guards.limits import NOTIFICATION_RECIPIENTS
from guards.urls import HostNotResolved, describe_url_problem, resolve_host
from notifications.channels.base import (
    TIMEOUT_SECONDS,
    Channel,
    ChannelInput,
    ChannelOption,
    ChannelSettings,
    Delivery,
    DeliveryResult,
    Problems,
    format_reason,
)
from notifications.channels.messages import build_message

_MAIL_PORTS: Final = (25, 465, 587)
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost")
_NO_SERVER: Final = (
    "This installation has no mail server. Set EMAIL_URL, or enter a mail server in the notification rule."
)


class MailChannel(Channel):
    """Mailboxes of people or lists."""

    address: ClassVar[ChannelInput] = ChannelInput(
        "Mail server",
        "Such as smtp://user:password@mail.example.com:587 (STARTTLS) or smtps:// (TLS). Empty: the mail "
        "server of this installation. It is stored encrypted and not shown again.",
        is_required=False,
    )
    options: ClassVar[tuple[ChannelOption, ...]] = (
        ChannelOption(
            "Recipients",
            "E-mail addresses. Separate with commas or spaces.",
            name="recipients",
            max_length=2_000,
        ),
    )

    def list_problems(self, settings: ChannelSettings, reach: AddressPolicy) -> Problems:
        recipients = split_recipients(settings.options.get("recipients", ""))
        if not recipients:
            yield "options.recipients", "Enter an e-mail address."
        if len(recipients) > NOTIFICATION_RECIPIENTS:
            yield "options.recipients", f"A rule has at most {NOTIFICATION_RECIPIENTS}. Use a mailing list."
        for recipient in recipients:
            try:
                validate_email(recipient)
            except ValidationError:
                yield "options.recipients", f"{recipient[:64]} is no e-mail address."
                break
        if settings.url and (problem := _describe_server_problem(settings.url, reach)):
            yield "url", format_reason(f"{problem}.")

    def describe_target(self, settings: ChannelSettings) -> str:
        return ", ".join(split_recipients(settings.options.get("recipients", "")))[:255]

    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        if not delivery.url and not _has_own_server():
            return DeliveryResult(None, _NO_SERVER)
        connection = _build_backend(urlsplit(delivery.url), reach) if delivery.url else _get_own_backend()
        mail = _build_mail(delivery, connection)
        if not mail.to:
            return DeliveryResult(None, "The notification rule has no recipients. Enter one.")
        try:
            mail.send()
        except AddressRefused as problem:
            return DeliveryResult(None, format_reason(f"{problem}."))
        except SomeRecipientsRefused as problem:
            refused = f"{len(problem.recipients)} of {len(mail.to)} recipients"
            return DeliveryResult(None, f"The mail server refused {refused}.", is_partial=True)
        except smtplib.SMTPRecipientsRefused:
            return DeliveryResult(None, "The mail server refused the recipients.")
        except smtplib.SMTPResponseException as problem:
            code = problem.smtp_code if problem.smtp_code > 0 else None
            return DeliveryResult(code, f"The mail server answered {problem.smtp_code}.")
        except (OSError, HostNotResolved, smtplib.SMTPException) as problem:
            return DeliveryResult(
                None, f"The mail server could not be reached or used: {type(problem).__name__}."
            )
        return DeliveryResult(None)


def split_recipients(text: str) -> list[str]:
    """Return the addresses of a text with commas, semicolons or spaces between them, each once."""
    return list(dict.fromkeys(text.replace(",", " ").replace(";", " ").split()))


def _build_mail(delivery: Delivery, connection: BaseEmailBackend) -> EmailMessage:
    document = delivery.document
    message = build_message(document)
    host = urlsplit(django_settings.PUBLIC_URL).hostname or "slipway"
    return EmailMessage(
        subject=message.text[:200],
        body=f"{message.title}\n\n{message.body}\n",
        to=split_recipients(delivery.options.get("recipients", "")),
        # The same for every attempt, so that mail servers detect a repetition.
        headers={"Message-ID": f"<{delivery.key}@{host}>", "Auto-Submitted": "auto-generated"},
        connection=connection,
    )


def _get_own_backend() -> BaseEmailBackend:
    """Return the backend of this installation."""
    is_smtp = django_settings.EMAIL_BACKEND == "django.core.mail.backends.smtp.EmailBackend"
    return StrictEmailBackend() if is_smtp else get_connection()


def _has_own_server() -> bool:
    return bool(django_settings.EMAIL_HOST) or "smtp" not in django_settings.EMAIL_BACKEND


def _describe_server_problem(url: str, reach: AddressPolicy) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"the address cannot be read: {error}"
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        return "the address must begin with smtp:// or smtps:// and name a host"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "the address must end after the port"
    checked_port = f":{port}" if port is not None and port not in _MAIL_PORTS else ""
    return describe_url_problem(f"https://{parts.hostname}{checked_port}", reach)


def _build_backend(server: SplitResult, reach: AddressPolicy) -> "CheckedEmailBackend":
    is_tls = server.scheme == "smtps"
    return CheckedEmailBackend(
        host=server.hostname,
        port=server.port or (465 if is_tls else 587),
        username=unquote(server.username or ""),
        password=unquote(server.password or ""),
        use_ssl=is_tls,
        use_tls=not is_tls and server.hostname not in _LOOPBACK_NAMES,
        timeout=int(TIMEOUT_SECONDS),
        reach=reach,
    )


class StrictEmailBackend(EmailBackend):
    """Mail backend that fails if the server refuses some of the recipients."""

    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        return StrictSmtpOverTls if self.use_ssl else StrictSmtp


class SomeRecipientsRefused(smtplib.SMTPRecipientsRefused):
    """The server refused some recipients, and took the mail for the others.

    After the base class nobody has the mail: a server that shuts down (421) ends the recipients early.
    """


class StrictSmtp(smtplib.SMTP):
    """SMTP client that raises `SomeRecipientsRefused` if the server took the mail for the others."""

    def sendmail(self, *args: Any, **options: Any) -> dict[str, tuple[int, bytes]]:
        if refused := super().sendmail(*args, **options):
            raise SomeRecipientsRefused(refused)
        return refused


class StrictSmtpOverTls(StrictSmtp, smtplib.SMTP_SSL):
    """The same over TLS."""


class CheckedEmailBackend(EmailBackend):
    """Mail backend that connects only to addresses of a policy."""

    def __init__(self, *args: Any, reach: AddressPolicy, **options: Any) -> None:
        super().__init__(*args, **options)
        self._reach = reach

    @property
    def connection_class(self) -> Callable[..., smtplib.SMTP]:  # type: ignore[override]
        client: type[CheckedSmtp] = CheckedSmtpOverTls if self.use_ssl else CheckedSmtp

        def connect(*args: Any, **options: Any) -> smtplib.SMTP:
            return client(*args, reach=self._reach, **options)

        return connect


class CheckedSmtp(StrictSmtp):
    """SMTP client that resolves the name once, checks every address, and connects to the first."""

    def __init__(self, *args: Any, reach: AddressPolicy, **options: Any) -> None:
        # Before the base class, which connects in its constructor.
        self._reach = reach
        super().__init__(*args, **options)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        resolved = resolve_host(host, port, self._reach)
        return socket.create_connection((resolved.address, port), timeout, self.source_address)


class CheckedSmtpOverTls(smtplib.SMTP_SSL, CheckedSmtp):
    """The same over TLS: `SMTP_SSL` wraps the socket of the class after it."""

    def __init__(self, *args: Any, reach: AddressPolicy, **options: Any) -> None:
        self._reach = reach
        smtplib.SMTP_SSL.__init__(self, *args, **options)
