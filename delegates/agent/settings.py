"""Settings of the agent from its environment, with proxy and certificates (R061, R062, R132)."""

import re
import ssl
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import certifi

from guards.limits import SPOOL_BYTES
from guards.log_lines import LineStyle

KINDS = ("ECS", "DOCKER", "KUBERNETES", "SHELL_SCRIPT")
DEFAULT_NAME = "harness-delegate"
_MIB = 1024 * 1024
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_OPERATION = re.compile(r"[a-z0-9-]+:[A-Za-z0-9]+\Z")
_TOKEN_FILE = re.compile(r"/[^\x00-\x1f\x7f,]{1,500}\Z")


class InvalidEnvironment(Exception):
    """Error raised for an invalid environment variable; the text names the variable and the fix."""


@dataclass(frozen=True)
class AgentSettings:
    """Settings of the agent from its environment; secrets are never printed."""

    account_id: str
    token: str = field(repr=False)
    manager_url: str
    name: str
    tags: tuple[str, ...]
    kind: str
    flavour: str
    home: Path
    init_script: str = field(default="", repr=False)
    port: int = 8080
    capacity: int = 10
    blocks_shell: bool = False
    uses_socket: bool = True
    heartbeat_seconds: float | None = None
    allowed_operations: frozenset[str] = frozenset()
    token_files: frozenset[str] = frozenset()
    # A file of PEM certificates, or their text.
    ca_bundle: Path | str | None = None
    spool_bytes: int = SPOOL_BYTES
    log_style: LineStyle = "json"
    stop_seconds: int = 600


def read_environment(environ: Mapping[str, str]) -> AgentSettings:
    """Return the settings of this agent. Raises `InvalidEnvironment` with a sentence naming the variable."""
    account = _get_required(environ, "HARNESS_ACCOUNT_ID", "ACCOUNT_ID")
    url_variable, url = _get_required(environ, "HARNESS_URL", "MANAGER_HOST_AND_PORT")
    return AgentSettings(
        account_id=account[1],
        token=_parse_token(*_read_token(environ)),
        manager_url=_parse_url(url_variable, url),
        name=_get_first(environ, "HARNESS_NAME", "DELEGATE_NAME")[1] or DEFAULT_NAME,
        tags=_parse_tags(_get_first(environ, "HARNESS_TAGS", "DELEGATE_TAGS")[1]),
        kind=_detect_kind(environ),
        flavour="legacy" if environ.get("DELEGATE_TOKEN") and not environ.get("HARNESS_TOKEN") else "v3",
        home=Path(environ.get("SLIPWAY_DELEGATE_HOME") or "slipway-delegate").absolute(),
        init_script=environ.get("INIT_SCRIPT", ""),
        port=_parse_integer(environ, "SLIPWAY_DELEGATE_PORT", 8080, most=65_535),
        capacity=_parse_integer(environ, "SLIPWAY_DELEGATE_CAPACITY", 10, least=1, most=1_000),
        blocks_shell=_parse_flag(environ, "SLIPWAY_DELEGATE_BLOCK_SHELL"),
        uses_socket=not _parse_flag(environ, "SLIPWAY_DELEGATE_NO_SOCKET"),
        heartbeat_seconds=_parse_seconds(environ, "SLIPWAY_DELEGATE_HEARTBEAT"),
        allowed_operations=_parse_operations(environ.get("SLIPWAY_DELEGATE_ALLOW_OPERATIONS", "")),
        token_files=_parse_token_files(environ),
        ca_bundle=_parse_bundle(environ),
        spool_bytes=_parse_integer(
            environ, "SLIPWAY_DELEGATE_SPOOL_MIB", SPOOL_BYTES // _MIB, least=1, most=65_536
        )
        * _MIB,
        log_style=_parse_log_style(environ),
        stop_seconds=_parse_integer(environ, "SLIPWAY_DELEGATE_STOP_SECONDS", 600, least=20, most=86_400),
    )


def _get_first(environ: Mapping[str, str], *names: str) -> tuple[str, str]:
    """Return the first non-empty variable with its name; else the first name and an empty text."""
    for name in names:
        if value := environ.get(name, "").strip():
            return name, value
    return names[0], ""


def _get_required(environ: Mapping[str, str], name: str, older: str) -> tuple[str, str]:
    variable, value = _get_first(environ, name, older)
    if not value:
        raise InvalidEnvironment(
            f"{name} is not set (nor the older {older}): set it as the task definition shows."
        )
    return variable, value


def _read_token(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the token and the variable that it comes from; a secret may be a file."""
    path = environ.get("HARNESS_TOKEN_FILE", "").strip()
    if not path or environ.get("HARNESS_TOKEN") or environ.get("DELEGATE_TOKEN"):
        return _get_required(environ, "HARNESS_TOKEN", "DELEGATE_TOKEN")
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as problem:
        raise InvalidEnvironment(
            f"HARNESS_TOKEN_FILE names {path!r}, which cannot be read: {type(problem).__name__}."
        ) from problem
    if not token:
        raise InvalidEnvironment(f"HARNESS_TOKEN_FILE names {path!r}, which is empty: write the token to it.")
    return "HARNESS_TOKEN_FILE", token


def _parse_token(variable: str, token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidEnvironment(f"{variable} contains invalid characters: copy it again from its page.")
    return token


def _parse_url(variable: str, text: str) -> str:
    url = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(url)
        port_is_right = parts.port != 0
    except ValueError:
        raise InvalidEnvironment(f"{variable} is not an address: {text!r}. {_URL_HINT}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_right:
        raise InvalidEnvironment(f"{variable} is not an address: {text!r}. {_URL_HINT}")
    if parts.username or parts.query or parts.fragment:
        raise InvalidEnvironment(f"{variable} must hold scheme, host and port only. {_URL_HINT}")
    return url.rstrip("/")


_URL_HINT = "Give the manager's address, such as https://slipway.example.com."


def _parse_tags(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag for part in text.split(",") if (tag := part.strip())))


def _detect_kind(environ: Mapping[str, str]) -> str:
    kind = environ.get("DELEGATE_TYPE", "").strip().upper()
    if kind and kind not in KINDS:
        raise InvalidEnvironment(f"DELEGATE_TYPE is {kind!r}: use one of {', '.join(KINDS)}.")
    # The documented legacy specification uses DOCKER on ECS too (R097).
    if environ.get("ECS_CONTAINER_METADATA_URI_V4") and kind in ("", "DOCKER"):
        return "ECS"
    if kind:
        return kind
    return "KUBERNETES" if environ.get("KUBERNETES_SERVICE_HOST") else "DOCKER"


def _parse_flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").strip().lower()
    if value in _TRUE:
        return True
    if value and value not in _FALSE:
        raise InvalidEnvironment(f"{name} is {value!r}: use 1 or 0.")
    return False


def _parse_integer(environ: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= most):
        raise InvalidEnvironment(f"{name} is {text!r}: use a whole number from {least} to {most}.")
    return int(text)


def _parse_seconds(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(name, "").strip()
    try:
        seconds = float(text) if text else None
    except ValueError:
        seconds = 0.0
    if seconds is not None and not 0.05 <= seconds <= 3600:
        raise InvalidEnvironment(f"{name} is {text!r}: use seconds from 0.05 to 3600.")
    return seconds


def _parse_operations(text: str) -> frozenset[str]:
    operations = [part for part in re.split(r"[\s,]+", text) if part]
    for operation in operations:
        if not _OPERATION.match(operation):
            raise InvalidEnvironment(
                f"SLIPWAY_DELEGATE_ALLOW_OPERATIONS holds {operation!r}: write service:Operation, such as "
                "s3:GetObject, separated by commas."
            )
    return frozenset(operations)


def _parse_token_files(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the OIDC tokens that connectors may name: those of the setting, and the process's own."""
    files = [part.strip() for part in environ.get("SLIPWAY_DELEGATE_TOKEN_FILES", "").split(",")]
    for file in filter(None, files):
        if not _TOKEN_FILE.match(file):
            raise InvalidEnvironment(
                f"SLIPWAY_DELEGATE_TOKEN_FILES holds {file!r}: write absolute paths, separated by commas."
            )
    return frozenset(filter(None, (*files, environ.get("AWS_WEB_IDENTITY_TOKEN_FILE", "").strip())))


def _parse_log_style(environ: Mapping[str, str]) -> LineStyle:
    text = environ.get("LOG_FORMAT", "").strip()
    if text not in ("", "json", "text"):
        raise InvalidEnvironment(f"LOG_FORMAT is {text!r}: use json or text.")
    return "text" if text == "text" else "json"


def _parse_bundle(environ: Mapping[str, str]) -> Path | str | None:
    name, value = _get_first(environ, "SLIPWAY_CA_BUNDLE", "ADDITIONAL_CERTS_PATH")
    if not value:
        # Some secret stores keep a text on one line.
        return environ.get("SLIPWAY_CA_PEM", "").strip().replace("\\n", "\n") or None
    path = Path(value)
    if not path.is_file():
        raise InvalidEnvironment(
            f"{name} names {value!r}, and there is no such file: mount the certificates there."
        )
    return path


# Credentials of the task and the machine come from link-local addresses, which a proxy cannot reach.
_NEVER_THROUGH_PROXY = ("169.254.169.254", "169.254.170.2", "localhost", "127.0.0.1")


def build_proxy_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return PROXY_HOST and related settings as the variables that libraries read.

    Raises `InvalidEnvironment`.
    """
    variables: dict[str, str] = {}
    host = environ.get("PROXY_HOST", "").strip()
    if host:
        url = _build_proxy_url(host, environ)
        variables = {name: url for name in ("HTTPS_PROXY", "HTTP_PROXY") if not environ.get(name)}
    elif environ.get("PROXY_PORT") and not environ.get("HTTPS_PROXY"):
        raise InvalidEnvironment("PROXY_PORT is set but PROXY_HOST is not: set both, or neither.")
    if variables or environ.get("HTTPS_PROXY") or environ.get("HTTP_PROXY"):
        spared = [part.strip() for part in environ.get("NO_PROXY", "").split(",") if part.strip()]
        variables["NO_PROXY"] = ",".join(dict.fromkeys([*spared, *_NEVER_THROUGH_PROXY]))
    return variables


def _build_proxy_url(host: str, environ: Mapping[str, str]) -> str:
    scheme = environ.get("PROXY_SCHEME", "").strip() or "http"
    port = environ.get("PROXY_PORT", "").strip() or ("443" if scheme == "https" else "80")
    if scheme not in ("http", "https"):
        raise InvalidEnvironment(f"PROXY_SCHEME is {scheme!r}: use http or https.")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise InvalidEnvironment(f"PROXY_PORT is {port!r}: use a number from 1 to 65535.")
    user, password = environ.get("PROXY_USER", ""), environ.get("PROXY_PASSWORD", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    return f"{scheme}://{login}{host}:{port}"


def configure_process_network(
    environ: MutableMapping[str, str], home: Path, ca_bundle: Path | str | None
) -> ssl.SSLContext:
    """Set the process's proxy and certificates, and return the settings of the manager client.

    The manager client and the AWS client trust the configured certificates in addition to the public ones.
    Raises `InvalidEnvironment`.
    """
    environ.update(build_proxy_variables(environ))
    if ca_bundle is None:
        return ssl.create_default_context(cafile=environ.get("SSL_CERT_FILE") or certifi.where())
    joined = home / "certificates.pem"
    try:
        if isinstance(ca_bundle, str):
            text, ca_bundle = ca_bundle, home / "own-certificates.pem"
            ca_bundle.write_text(text)
        joined.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + ca_bundle.read_bytes())
        # Scripts of other users trust the same.
        joined.chmod(0o644)
        context = ssl.create_default_context(cafile=str(joined))
        # Alone too: a file without one certificate would pass unnoticed among the public ones.
        ssl.create_default_context(cafile=str(ca_bundle))
    except (OSError, ssl.SSLError) as problem:
        raise InvalidEnvironment(
            f"The certificates in {ca_bundle} cannot be used ({problem}): give a file of PEM certificates."
        ) from problem
    environ["AWS_CA_BUNDLE"] = environ["SSL_CERT_FILE"] = str(joined)
    return context
