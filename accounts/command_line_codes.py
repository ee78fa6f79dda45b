"""One-time codes that sign a command line in.

A signed-in person approves a sign-in, and gets a code. The command line that asked for it proves itself with
the verifier of its challenge (PKCE, RFC 7636), and gets an API key. The code is signed, so no row waits for
it, and the unique name of the key lets it work once.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core import signing
from django.utils.crypto import constant_time_compare, salted_hmac

from guards.limits import COMMAND_LINE_CODE_SECONDS
from rbac import operations
from rbac.models import ApiKey, Scope, User
from web.http.problems import BadInput

_SALT: Final = "slipway.command-line"
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_STATE: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")
_PORT: Final = re.compile(r"[1-9][0-9]{3,4}")
_REFUSAL: Final = "This code is not valid any more. Start again: slipway login"


@dataclass(frozen=True)
class SignInRequest:
    """Sign-in that a command line asks for; `port` is where it listens on this machine, or empty."""

    challenge: str
    state: str
    port: str

    @property
    def return_url(self) -> str:
        """Return the address of the waiting command line, without the code; empty if it does not listen."""
        return f"http://127.0.0.1:{self.port}/?state={self.state}" if self.port else ""


def parse_request(challenge: str, state: str, port: str) -> SignInRequest:
    """Return the request in the address of the page. Raises `BadInput` for another one."""
    is_port = not port or (_PORT.fullmatch(port) is not None and 1024 <= int(port) <= 65535)
    if not (_CHALLENGE.fullmatch(challenge) and _STATE.fullmatch(state) and is_port):
        raise BadInput("This link is not complete. Start again in the terminal: slipway login")
    return SignInRequest(challenge, state, port)


def issue_code(
    user: User,
    request: SignInRequest,
    *,
    name: str,
    scope: Scope | None,
    permissions: Any,
    expires_at: datetime | None,
) -> str:
    """Return a code for a key of `user` with these fields."""
    content = {
        "user": user.pk,
        "challenge": request.challenge,
        "name": name,
        "scope": scope.pk if scope else None,
        "permissions": list(permissions),
        "expires_at": expires_at.isoformat() if expires_at else None,
        "credential": _build_credential(user),
    }
    return signing.dumps(content, salt=_SALT, compress=True)


def exchange_code(code: str, verifier: str) -> tuple[ApiKey, str]:
    """Create the key of a code, and return it with its token.

    Raises `BadInput` for a code that is forged, older than five minutes or than the password of its user, of
    another command line, or of a user who has been deactivated; `ValidationError` for one that was used.
    """
    try:
        content = signing.loads(code, salt=_SALT, max_age=int(COMMAND_LINE_CODE_SECONDS))
    except signing.BadSignature as exc:
        raise BadInput(_REFUSAL) from exc
    user = User.objects.filter(pk=content["user"], is_active=True).first()
    if user is None or not constant_time_compare(_build_credential(user), content.get("credential", "")):
        raise BadInput(_REFUSAL)
    if not hmac.compare_digest(build_challenge(verifier), content["challenge"]):
        raise BadInput(_REFUSAL)
    scope = Scope.objects.filter(pk=content["scope"]).first() if content["scope"] else None
    if content["scope"] and scope is None:
        # Without its scope, the key would have no limit.
        raise BadInput(_REFUSAL)
    expires_at = content["expires_at"]
    return operations.create_api_key(
        actor=user,
        user=user,
        name=content["name"],
        scope=scope,
        permissions=content["permissions"],
        expires_at=datetime.fromisoformat(expires_at) if expires_at else None,
    )


def build_challenge(verifier: str) -> str:
    """Return the challenge of a verifier (RFC 7636, S256)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _build_credential(user: User) -> str:
    """Return a hash that a new password changes; the code is readable, so it is not that of the session."""
    return salted_hmac(_SALT, user.get_session_auth_hash(), algorithm="sha256").hexdigest()
