"""Sessions of users: lifetime, listing and termination."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.core.internal.httpkit import HTTP_USER_AGENT_MAX_LENGTH
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from guards.limits import SESSION_IDLE_SECONDS, SESSION_SECONDS
from rbac import audit
from rbac.access_changes import hash_session_key
from rbac.models import User
from rbac.operations.users import set_user_active
from web.http import sessions
from web.http.middleware import DatabaseMiddleware
from web.http.outages import optional_write
from web.http.sessions import SEEN_AT_KEY
from web.retention import RetentionRule

STARTED_KEY = "started_at"
# Precision of "last seen": every request is checked, few are stored.
SEEN_INTERVAL = timedelta(minutes=5)


class SessionLifetimeMiddleware(DatabaseMiddleware):
    """Middleware that ends idle and old sessions, and records the last use of each."""

    def prepare(self, request: HttpRequest) -> None:
        if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
            _check_lifetime(request)


def begin_session(request: HttpRequest) -> None:
    """Start the lifetime of a session after the sign-in."""
    request.session[STARTED_KEY] = timezone.now().isoformat()
    record_activity(request)


def _check_lifetime(request: HttpRequest) -> None:
    if STARTED_KEY not in request.session:
        begin_session(request)
    now, last_seen = timezone.now(), datetime.fromisoformat(request.session[SEEN_AT_KEY])
    if now - last_seen < SEEN_INTERVAL:
        return
    if now >= _terminate(request, last_seen):
        logout(request)
    else:
        record_activity(request)


def record_activity(request: HttpRequest) -> None:
    """Record the use of the session of `request`, and list it among those of its user."""
    now = timezone.now()
    request.session[SEEN_AT_KEY] = now.isoformat()
    # The database forgets it by itself then, for sockets too.
    request.session.set_expiry(_terminate(request, now))
    key = _get_session_key(request)
    with optional_write("the last use of a session"):
        UserSession.objects.update_or_create(
            session_key=hash_session_key(key),
            defaults={
                "user": request.user,
                "ip": get_adapter().get_client_ip(request),
                "user_agent": request.META.get("HTTP_USER_AGENT", "")[:HTTP_USER_AGENT_MAX_LENGTH],
                "last_seen_at": now,
            },
        )


def keep_session(request: HttpRequest, person: User) -> None:
    """Keep the session of `request` under a new key after a new password ended all sessions of `person`."""
    update_session_auth_hash(request, person)
    record_activity(request)


def _get_session_key(request: HttpRequest) -> str:
    if not request.session.session_key:
        request.session.save()
    return str(request.session.session_key)


def _terminate(request: HttpRequest, last_seen: datetime) -> datetime:
    started = datetime.fromisoformat(request.session[STARTED_KEY])
    return min(
        last_seen + timedelta(seconds=SESSION_IDLE_SECONDS), started + timedelta(seconds=SESSION_SECONDS)
    )


@dataclass(frozen=True)
class UserSessionSummary:
    """Session in the list of its user."""

    pk: int
    device: str
    address: str
    began_at: datetime
    seen_at: datetime
    is_this: bool


def list_user_sessions(person: User, current: str | None) -> list[UserSessionSummary]:
    """Return the sessions in which `person` is signed in; the one with the key `current` first, then the
    latest.
    """
    this = hash_session_key(current or "")
    sessions = [
        UserSessionSummary(
            pk=row.pk,
            device=describe_device(row.user_agent),
            address=row.ip,
            began_at=row.created_at,
            seen_at=row.last_seen_at,
            is_this=row.session_key == this,
        )
        for row in _list_open_user_sessions(person).order_by("-last_seen_at")[:200]
    ]
    return sorted(sessions, key=lambda place: not place.is_this)


@transaction.atomic
def end_session(*, actor: User, pk: int) -> bool:
    """End one of the actor's own sessions, and return whether it existed."""
    row = UserSession.objects.filter(user=actor, pk=pk).first()
    if row is not None:
        _terminate_listed(row)
        audit.record_audit_entry(
            actor=actor, action="user.session_end", thing=actor, before={"address": row.ip}
        )
    return row is not None


@transaction.atomic
def end_other_sessions(*, actor: User, current: str | None) -> int:
    """End all sessions of the actor but the one with the key `current`, and return how many there were."""
    rows = list(_list_open_user_sessions(actor).exclude(session_key=hash_session_key(current or "")))
    for row in rows:
        _terminate_listed(row)
    if rows:
        after = {"sessions": len(rows)}
        audit.record_audit_entry(actor=actor, action="user.sessions_end", thing=actor, after=after)
    return len(rows)


@transaction.atomic
def disable_user(*, actor: User, person: User) -> None:
    """Disable a user and end their sessions. Raises `Forbidden`, `ValidationError`."""
    set_user_active(actor=actor, person=person, is_active=False)
    # Otherwise they would open again if the user is enabled later.
    end_all_sessions(person)


@transaction.atomic
def enable_user(*, actor: User, person: User) -> None:
    """Enable a user, who signs in anew. Raises `Forbidden`, `ValidationError`."""
    is_disabled = User.objects.filter(pk=person.pk, is_active=False).exists()
    set_user_active(actor=actor, person=person, is_active=True)
    if is_disabled:
        # A sign-in that met the disabling may have left one.
        end_all_sessions(person)


def end_all_sessions(person: User) -> None:
    """End every session of this person."""
    for row in UserSession.objects.filter(user=person):
        _terminate_listed(row)


def end_every_session() -> int:
    """End the sessions of everybody, and return their number; sockets close with their process."""
    UserSession.objects.all().delete()
    return Session.objects.all().delete()[0]


def forget_session(session_key: str | None) -> None:
    """Remove a session from the list at sign-out."""
    if session_key:
        UserSession.objects.filter(session_key=hash_session_key(session_key)).delete()


SESSION_RETENTION = (
    RetentionRule("Sessions", Session.objects.all(), "expire_date"),
    RetentionRule(
        "Devices of ended sessions",
        UserSession.objects.exclude(Exists(Session.objects.filter(session_key=OuterRef("session_key")))),
    ),
)


def _terminate_listed(row: UserSession) -> None:
    # The row's own `end` would use the stored hash as a key.
    sessions.end_session(row.session_key)
    row.delete()


def _list_open_user_sessions(person: User) -> QuerySet[Any]:
    alive = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=timezone.now())
    return UserSession.objects.filter(Exists(alive), user=person)


# Each subquery contains the names of the later ones too.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


def describe_device(user_agent: str) -> str:
    """Return the browser and system of a user agent: "Firefox on Linux"."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or user_agent[:60] or "Unknown"
