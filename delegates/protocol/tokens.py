"""Delegate tokens as agents show them: found by their hash, and refused with what to do about it."""

import re

from delegates.models import DelegateToken
from delegates.protocol.problems import (
    TokenExpired,
    TokenMalformed,
    TokenRevoked,
    TokenUnknown,
    WrongAccount,
)
from delegates.protocol.sessions import check_scope, hash_of, is_trusted
from web.clock import database_now

_TOKEN = re.compile(rf"{DelegateToken.PREFIX}[A-Za-z0-9_-]{{43}}")


def token_of(shown: str) -> DelegateToken:
    """The token that an agent shows, whatever its state. Raises `TokenMalformed`, `TokenUnknown`."""
    if not _TOKEN.fullmatch(shown):
        raise TokenMalformed(
            f"What was sent is no delegate token: those are {DelegateToken.PREFIX} and 43 characters. "
            "Copy the token again, without quotes or spaces."
            if shown
            else "No token was sent. Set the delegate's token in its environment."
        )
    found = DelegateToken.objects.select_related("scope__parent").filter(token_hash=hash_of(shown)).first()
    if found is None:
        raise TokenUnknown("No such token was made here. Copy one from the list of delegate tokens.")
    return found


def check_token(token: DelegateToken) -> None:
    """Refuse a token whose time is over. Raises `TokenRevoked`, `TokenExpired`, `ScopeArchived`."""
    if not is_trusted(token):
        raise TokenRevoked(f"The token {token.name} was revoked. Start the delegate with another one.")
    if token.expires_at is not None and database_now() >= token.expires_at:
        ended = f"{token.expires_at:%Y-%m-%d %H:%M} UTC"
        raise TokenExpired(f"The token {token.name} expired on {ended}. Make a new one.")
    check_scope(token.scope)


def check_account(*, sent: str, ours: str) -> None:
    """Refuse agents that mean another installation. Raises `WrongAccount`."""
    if sent != ours:
        said = f"The account id {sent!r} is not the one of this Slipway" if sent else "No account id was sent"
        raise WrongAccount(f"{said}: it is {ours}. Correct it in the delegate's environment.")
