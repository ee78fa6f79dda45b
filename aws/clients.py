"""Cache of boto3 clients by credentials, shared by all threads, with a send deadline for writes."""

import json
import os
import re
import threading
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import botocore.session
from botocore import UNSIGNED
from botocore.awsrequest import AWSHTTPConnection, AWSHTTPSConnection
from botocore.config import Config
from botocore.credentials import DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.loaders import create_loader
from botocore.parsers import ResponseParserError

from aws.errors import NotSent, Unanswered, Unauthenticated
from aws.operations import is_write
from aws.responses import convert_error
from guards.address_policy import PRIVATE_ALLOWED, AddressPolicy
from guards.connection_pools import build_guarded_pools


@dataclass(frozen=True)
class AccessKey:
    """A key pair, with a session token if it is a temporary one; its secrets are never printed."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class DefaultChain:
    """Default credential chain of the process: environment, shared files, container or instance role."""


@dataclass(frozen=True)
class Unsigned:
    """No credentials, for the operations of STS that take a token in their place."""


@dataclass(frozen=True)
class WebIdentity:
    """A role assumed with an OIDC token from a file, which is read again for each new session."""

    role_arn: str
    token_file: str
    session_name: str = "slipway"


@dataclass(frozen=True)
class AssumedRole:
    """A role taken on by other credentials, renewed before it expires.

    `tags` are pairs of key and value; `transitive_tag_keys` names those that later roles of a chain inherit.
    """

    role_arn: str
    base: "AccessKey | DefaultChain | WebIdentity | AssumedRole" = DefaultChain()
    external_id: str = field(default="", repr=False)
    session_name: str = "slipway"
    tags: tuple[tuple[str, str], ...] = ()
    transitive_tag_keys: tuple[str, ...] = ()


Credentials = AccessKey | DefaultChain | WebIdentity | AssumedRole

_thread_state = threading.local()


class SendDeadlinePassed(NotSent):
    """The call was not sent because the deadline for sending it had passed."""


@contextmanager
def send_deadline(deadline: float) -> Iterator[None]:
    """Raise `SendDeadlinePassed` for writes of this thread in the block after `moment`.

    The moment is one of `time.monotonic`.
    """
    _thread_state.moment = deadline
    try:
        yield
    finally:
        del _thread_state.moment


def refuse_late_write(*, event_name: str, **more: Any) -> None:
    """Refuse a late write in botocore's before-send hook, directly before the socket."""
    deadline = getattr(_thread_state, "moment", None)
    if deadline is None or time.monotonic() <= deadline:
        return
    _, service, operation = event_name.split(".", 2)
    if is_write(service, operation):
        raise SendDeadlinePassed("TooLate", "the deadline for sending it had passed", service, operation)


CONNECT_SECONDS = 3
READ_SECONDS = 10
_CLIENT_CACHE_SIZE = 256


@dataclass(frozen=True)
class Endpoint:
    """Endpoint instead of AWS, with the permitted addresses of its name."""

    url: str
    address_policy: AddressPolicy = PRIVATE_ALLOWED


_ClientKey = tuple[Credentials | Unsigned, str, Endpoint | None, str]
_clients: "OrderedDict[_ClientKey, Any]" = OrderedDict()
# Making a client is not thread-safe in botocore; using one is.
_lock = threading.RLock()
_loader = create_loader()


def get_client(
    credentials: Credentials | Unsigned, region: str, endpoint: Endpoint | None, service: str
) -> Any:
    """Return the shared client of one service; the least recently used clients are evicted."""
    key = (credentials, region, endpoint, service)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = _create_client(key)
            if len(_clients) > _CLIENT_CACHE_SIZE:
                _clients.popitem(last=False)
        _clients.move_to_end(key)
        return client


def get_current_key(credentials: Credentials, region: str) -> AccessKey:
    """Return the keys that a call would be signed with now. Raises `AwsError` if there are none."""
    try:
        client = get_client(credentials, region, None, "sts")
        resolved = client._request_signer._credentials
        if resolved is None:
            raise NoCredentialsError
        frozen = resolved.get_frozen_credentials()
    except BotoCoreError as error:
        raise convert_error(error, "sts", "GetCallerIdentity") from error
    return AccessKey(frozen.access_key, frozen.secret_key, frozen.token or "")


def _clear_clients() -> None:
    """Clear the clients of a forked worker: it cannot use the parent's sockets and locks."""
    global _lock
    _lock = threading.RLock()
    _clients.clear()


os.register_at_fork(after_in_child=_clear_clients)


def _create_client(key: _ClientKey) -> Any:
    credentials, region, endpoint, service = key
    session = botocore.session.Session()
    session.register_component("data_loader", _loader)
    if isinstance(credentials, AccessKey):
        session.set_credentials(
            credentials.access_key_id, credentials.secret_access_key, credentials.session_token or None
        )
    elif isinstance(credentials, AssumedRole | WebIdentity):
        # botocore refreshes the credentials before the role's session expires.
        session._credentials = DeferredRefreshableCredentials(  # type: ignore[attr-defined]
            method="assume-role",
            refresh_using=_build_role_refresh(credentials, region, endpoint)
            if isinstance(credentials, AssumedRole)
            else _build_web_identity_refresh(credentials, region, endpoint),
        )
    url = endpoint.url if endpoint else None
    config = _build_config()
    if isinstance(credentials, Unsigned):
        config = config.merge(Config(signature_version=UNSIGNED))
    client = session.create_client(service, region_name=region, endpoint_url=url, config=config)
    if endpoint:
        _guard_connections(client, endpoint.address_policy)
    client.meta.events.register(
        f"after-call.{client.meta.service_model.service_id.hyphenize()}", _refuse_truncated_response
    )
    client.meta.events.register_last("before-send", refuse_late_write)
    return client


def _guard_connections(client: Any, address_policy: AddressPolicy) -> None:
    """Restrict a client to permitted addresses, checked for each new connection.

    The name may resolve differently than when the connector was saved.
    """
    pools = build_guarded_pools(lambda: address_policy, http=AWSHTTPConnection, https=AWSHTTPSConnection)
    client._endpoint.http_session._manager.pool_classes_by_scheme = pools


def _refuse_truncated_response(http_response: Any, parsed: dict[str, Any], model: Any, **_: Any) -> None:
    """Reject a truncated response, which botocore would accept as an empty success.

    Raises `ResponseParserError`, so that a write counts as unanswered.
    """
    if model.has_streaming_output and http_response.status_code < 300:
        # The reader checks the length.
        return
    body = http_response.content
    content_length = http_response.headers.get("Content-Length")
    if content_length and content_length.isdigit() and len(body) < int(content_length):
        raise ResponseParserError(f"the answer ended after {len(body)} of {content_length} bytes")
    if http_response.status_code < 300 and not parsed.keys() - {"ResponseMetadata"} and body[:1] == b"{":
        _require_json(body)


def _require_json(body: bytes) -> None:
    try:
        json.loads(body)
    except ValueError as exc:
        raise ResponseParserError("the response is not the expected JSON") from exc


def _build_config() -> Config:
    # botocore's own retries are off: it cannot detect responses that were lost after the effect.
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=32,
        tcp_keepalive=True,
        user_agent_extra="slipway",
    )


def _build_role_refresh(
    role: AssumedRole, region: str, endpoint: Endpoint | None
) -> Callable[[], dict[str, str | datetime]]:
    def assume() -> dict[str, str | datetime]:
        sts = get_client(role.base, region, endpoint, "sts")
        options: dict[str, Any] = {"ExternalId": role.external_id} if role.external_id else {}
        if role.tags:
            options["Tags"] = [{"Key": key, "Value": value} for key, value in role.tags]
        if role.transitive_tag_keys:
            options["TransitiveTagKeys"] = list(role.transitive_tag_keys)
        return _open_session(
            "AssumeRole",
            lambda: sts.assume_role(RoleArn=role.role_arn, RoleSessionName=role.session_name, **options),
        )

    return assume


def _build_web_identity_refresh(
    identity: WebIdentity, region: str, endpoint: Endpoint | None
) -> Callable[[], dict[str, str | datetime]]:
    def assume() -> dict[str, str | datetime]:
        token = read_web_identity_token(identity.token_file)
        sts = get_client(Unsigned(), region, endpoint, "sts")
        return _open_session(
            "AssumeRoleWithWebIdentity",
            lambda: sts.assume_role_with_web_identity(
                RoleArn=identity.role_arn, RoleSessionName=identity.session_name, WebIdentityToken=token
            ),
        )

    return assume


def read_web_identity_token(path: str) -> str:
    """Return the token in a file. Raises `Unauthenticated` if there is none, or something else is in it.

    A file without a token is never sent: its path comes from a user.
    """
    text = ""
    try:
        # A pipe would block for ever.
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                text = file.read(_MAX_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, ValueError):
        text = ""
    if not _is_json_web_token(text):
        message = f"the file {path} has no OIDC token: mount it, or correct the path"
        raise Unauthenticated("NoWebIdentityToken", message, "sts", "AssumeRoleWithWebIdentity")
    return text


_MAX_TOKEN_BYTES = 20_000
_JSON_WEB_TOKEN = re.compile(r"([\w-]+)\.([\w-]+)\.[\w-]+\Z", re.ASCII)


def _is_json_web_token(text: str) -> bool:
    match = _JSON_WEB_TOKEN.match(text)
    if match is None or len(text) > _MAX_TOKEN_BYTES:
        return False
    try:
        header, claims = (json.loads(b64decode(part + "==", altchars=b"-_")) for part in match.groups())
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and isinstance(claims, dict) and "alg" in header and "iss" in claims


# Of STS: the identity provider did not answer when AWS checked its token. A repetition often succeeds.
_IDENTITY_PROVIDER_AWAY = "IDPCommunicationError"


def _open_session(operation: str, send: Callable[[], dict[str, Any]]) -> dict[str, str | datetime]:
    try:
        response = send()
    except (ClientError, BotoCoreError, ResponseParserError) as boto_error:
        error = convert_error(boto_error, "sts", operation)
        if isinstance(error, Unanswered) or error.code == _IDENTITY_PROVIDER_AWAY:
            # The call that needed the role has not left yet, and assuming a role changes nothing.
            error = NotSent(error.code, error.message, "sts", operation)
        raise error from boto_error
    credentials = response["Credentials"]
    return {
        "access_key": credentials["AccessKeyId"],
        "secret_key": credentials["SecretAccessKey"],
        "token": credentials["SessionToken"],
        "expiry_time": credentials["Expiration"].isoformat(),
    }
