"""Requests to a Vault server: logins that are kept until their lease ends, and errors with their fix.

A caller in place of this process makes requests of the service `VAULT_SERVICE`. The operation is the method,
the parameters are `url`, `headers`, `body`, and as `mask` their secrets; the answer is {"status", "body"}.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import hvac
import requests
from django.conf import settings
from hvac import exceptions as vault_errors
from requests.adapters import BaseAdapter

from aws.caller import Caller
from aws.clients import DefaultChain, get_current_key
from aws.errors import AwsError
from connectors.models import Connector
from connectors.secret_managers.base import SecretPending, SecretUnreadable
from connectors.secret_values import read_secret_value
from connectors.specs.vault import APP_ROLE, AWS_IAM, VAULT_TOKEN, VaultSpec, parse_vault_spec
from web.http.client import create_safe_session

# A reconcile pass has 30 seconds in all.
TIMEOUT_SECONDS: Final = 5.0
# A login is renewed before its lease ends.
_LEASE_SHARE: Final = 0.8
_MAX_LOGINS: Final = 256
VAULT_SERVICE: Final = "vault"
_CALLER_FIX: Final = "Check that the delegate reaches the address, and the delegates of the connector."
# Vault verifies the request at the global endpoint of STS unless it is told otherwise.
_SIGNING_REGION: Final = "us-east-1"


class VaultRefusal(Exception):
    """Error raised when Vault does not answer a request as asked, with the reason and the fix."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason, fix)
        self.reason, self.fix = reason, fix


class VaultDenial(VaultRefusal):
    """Error raised when the login is good, but no policy allows the request."""


@dataclass(frozen=True)
class _Login:
    """A token of Vault and the end of its use, as a moment of `time.monotonic`."""

    token: str = field(repr=False)
    expires_at: float


_logins: dict[tuple[int, datetime], _Login] = {}


def clear_logins() -> None:
    """Forget the logins of this process."""
    _logins.clear()


class VaultClient:
    """Client of a connector's Vault server; with a `caller`, it logs in for each request."""

    def __init__(self, connector: Connector, caller: Caller | None = None) -> None:
        self.connector = connector
        self.spec = parse_vault_spec(connector.spec)
        self._caller = caller

    def request(self, send: Callable[[hvac.Client], Any]) -> Any:
        """Return the answer to a request, after a login. Raises `VaultRefusal`, and `SecretUnreadable`.

        A denied request is sent again after a new login: the kept one may have been revoked.
        """
        login = self._get_login()
        if login is not None:
            try:
                return self._send(send, login.token)
            except VaultDenial:
                _logins.pop(self._login_key, None)
        return self._send(send, self._log_in())

    def _send(self, send: Callable[[hvac.Client], Any], token: str) -> Any:
        try:
            return send(self._build_client(token, token))
        except AwsError as error:
            raise VaultRefusal(error.display_message, _CALLER_FIX) from error
        except (vault_errors.VaultError, requests.RequestException) as error:
            raise _convert_error(self.spec, error) from error

    @property
    def _login_key(self) -> tuple[int, datetime]:
        return self.connector.pk, self.connector.updated_at

    def _get_login(self) -> _Login | None:
        login = _logins.get(self._login_key) if self._caller is None else None
        return login if login is not None and login.expires_at > time.monotonic() else None

    def _log_in(self) -> str:
        """Return the token of a new login, which is kept for its lease, or the connector's own token."""
        secret = self._read_secret() if self.spec.needs_secret else ""
        if self.spec.authentication == VAULT_TOKEN:
            return secret
        started = time.monotonic()
        try:
            auth = _send_login(self._build_client("", secret), self.spec, secret)["auth"]
            token, seconds = str(auth["client_token"]), float(auth.get("lease_duration") or 0)
        except AwsError as error:
            raise VaultRefusal(error.display_message, _CALLER_FIX) from error
        except (vault_errors.InvalidRequest, vault_errors.Forbidden, vault_errors.Unauthorized) as error:
            raise VaultRefusal(
                f"Vault refused the login by {self.spec.authentication}",
                f"Correct the login of the connector {self.connector}, and its role in Vault.",
            ) from error
        except (vault_errors.VaultError, requests.RequestException) as error:
            raise _convert_error(self.spec, error) from error
        except (KeyError, TypeError, ValueError) as error:
            raise VaultRefusal("the answer to the login is not Vault's", "Check the address.") from error
        if self._caller is None:
            if len(_logins) >= _MAX_LOGINS:
                clear_logins()
            _logins[self._login_key] = _Login(token, started + seconds * _LEASE_SHARE)
        return token

    def _build_client(self, token: str, secret: str) -> hvac.Client:
        """Return a client with a token; `secret` is the secret in its requests."""
        session = create_safe_session() if self._caller is None else _open_session(self._caller, secret)
        # A redirect would carry the token to another address.
        return hvac.Client(
            url=self.spec.url.rstrip("/"),
            token=token,
            namespace=self.spec.namespace or None,
            session=session,
            timeout=TIMEOUT_SECONDS,
            allow_redirects=False,
        )

    def _read_secret(self) -> str:
        secret = self.connector.secret
        if secret is None:
            raise VaultRefusal(f"the connector {self.connector} has no secret", "Edit it and select one.")
        try:
            return read_secret_value(secret, reader=f"connector {self.connector}")
        except SecretPending:
            raise
        except SecretUnreadable as unreadable:
            raise VaultRefusal("the secret of its login cannot be read", str(unreadable)) from None


class _CallerAdapter(BaseAdapter):
    """Adapter that gives each request to a caller, and its answer back."""

    def __init__(self, caller: Caller, secret: str) -> None:
        super().__init__()
        self._caller, self._secret = caller, secret

    def send(self, request: requests.PreparedRequest, **_options: Any) -> requests.Response:  # type: ignore[override]
        body = request.body or b""
        url = request.url or ""
        params: dict[str, Any] = {
            "url": url,
            "headers": dict(request.headers),
            "body": body.decode() if isinstance(body, bytes) else body,
            "mask": [self._secret] if self._secret else [],
        }
        answer = self._caller.call(VAULT_SERVICE, request.method or "GET", params)
        response = requests.Response()
        response.status_code, response.url, response.request = int(answer["status"]), url, request
        response.encoding, response._content = "utf-8", str(answer["body"]).encode()
        return response

    def close(self) -> None:
        """Do nothing; the caller keeps its own connections."""


def _open_session(caller: Caller, secret: str) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    for scheme in ("https://", "http://"):
        session.mount(scheme, _CallerAdapter(caller, secret))
    return session


def _send_login(client: hvac.Client, spec: VaultSpec, secret: str) -> Any:
    mount = spec.login_mount.strip("/")
    if spec.authentication == APP_ROLE:
        return client.auth.approle.login(
            spec.role_id, secret_id=secret, use_token=False, mount_point=mount or "approle"
        )
    if spec.authentication != AWS_IAM or not settings.ALLOW_MANAGER_CREDENTIALS:
        raise VaultRefusal(
            "this installation does not allow the use of its own AWS credentials",
            "Use AppRole, or set SLIPWAY_ALLOW_MANAGER_CREDENTIALS.",
        )
    try:
        key = get_current_key(DefaultChain(), _SIGNING_REGION)
    except AwsError as error:
        raise VaultRefusal(error.display_message, "Give Slipway an IAM role, or use AppRole.") from error
    return client.auth.aws.iam_login(
        key.access_key_id,
        key.secret_access_key,
        session_token=key.session_token or None,
        header_value=spec.server_id or None,
        role=spec.role,
        use_token=False,
        mount_point=mount or "aws",
    )


# Reason and fix by error. The server's own words could repeat a value, and are left out.
_ERROR_TEXTS: Final[tuple[tuple[tuple[type[Exception], ...], str, str], ...]] = (
    (
        (vault_errors.InvalidPath,),
        "there is no such secret or version (404)",
        "Check the path below the mount {mount}, the version and the namespace.",
    ),
    ((vault_errors.VaultDown,), "Vault is sealed or in maintenance (503)", "Unseal Vault, then try again."),
    ((vault_errors.VaultNotInitialized,), "Vault is not initialized (501)", "Initialize Vault."),
    ((vault_errors.RateLimitExceeded,), "Vault refuses more requests (429)", "Raise its rate limit quota."),
    (
        (vault_errors.InvalidRequest,),
        "Vault refused the request (400)",
        "Check that {mount} is a key-value engine of version 2.",
    ),
    ((vault_errors.Unauthorized,), "the login was not accepted (401)", "Correct the connector's login."),
    (
        (requests.exceptions.Timeout,),
        f"{{url}} did not answer in {TIMEOUT_SECONDS:g} seconds",
        "Check the address and firewalls.",
    ),
    (
        (requests.exceptions.InvalidURL, requests.exceptions.ConnectionError),
        "{url} cannot be reached",
        "Check the address, name resolution, firewalls and the permitted networks of Slipway.",
    ),
)


def _convert_error(spec: VaultSpec, error: Exception) -> VaultRefusal:
    if isinstance(error, vault_errors.Forbidden):
        return VaultDenial("permission denied (403)", "Renew the token, or add a policy to its login.")
    for kinds, reason, fix in _ERROR_TEXTS:
        if isinstance(error, kinds):
            return VaultRefusal(reason.format(url=spec.url), fix.format(mount=spec.mount))
    return VaultRefusal("Vault had an error", "Look into the log of Vault, then try again.")
