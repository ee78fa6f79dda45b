"""Proxy and certificates, told to the process, where httpx, websockets and botocore look (R061, R062)."""

import ssl
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from urllib.parse import quote

import certifi

from delegates.agent.environment import BadEnvironment

# Credentials of the task and of the machine come from neighbours, which no proxy reaches.
_NEVER_THROUGH_PROXY = ("169.254.169.254", "169.254.170.2", "localhost", "127.0.0.1")


def proxy_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What PROXY_HOST and its kin say, as the variables that libraries read. Raises `BadEnvironment`."""
    found: dict[str, str] = {}
    host = environ.get("PROXY_HOST", "").strip()
    if host:
        url = _proxy_url(host, environ)
        found = {name: url for name in ("HTTPS_PROXY", "HTTP_PROXY") if not environ.get(name)}
    elif environ.get("PROXY_PORT") and not environ.get("HTTPS_PROXY"):
        raise BadEnvironment("PROXY_PORT is set but PROXY_HOST is not: set both, or neither.")
    if found or environ.get("HTTPS_PROXY") or environ.get("HTTP_PROXY"):
        spared = [part.strip() for part in environ.get("NO_PROXY", "").split(",") if part.strip()]
        found["NO_PROXY"] = ",".join(dict.fromkeys([*spared, *_NEVER_THROUGH_PROXY]))
    return found


def _proxy_url(host: str, environ: Mapping[str, str]) -> str:
    scheme = environ.get("PROXY_SCHEME", "").strip() or "http"
    port = environ.get("PROXY_PORT", "").strip() or ("443" if scheme == "https" else "80")
    if scheme not in ("http", "https"):
        raise BadEnvironment(f"PROXY_SCHEME is {scheme!r}: use http or https.")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise BadEnvironment(f"PROXY_PORT is {port!r}: use a number from 1 to 65535.")
    user, password = environ.get("PROXY_USER", ""), environ.get("PROXY_PASSWORD", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    return f"{scheme}://{login}{host}:{port}"


def tell_process(environ: MutableMapping[str, str], home: Path, ca_bundle: Path | None) -> ssl.SSLContext:
    """Set the process's proxy and certificates; the result is for talking to the manager.

    Certificates of our own are trusted beside the public ones, by the manager's client and by AWS's alike.
    Raises `BadEnvironment`.
    """
    environ.update(proxy_variables(environ))
    if ca_bundle is None:
        return ssl.create_default_context(cafile=environ.get("SSL_CERT_FILE") or certifi.where())
    joined = home / "certificates.pem"
    try:
        joined.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + ca_bundle.read_bytes())
        # Scripts of other users trust the same.
        joined.chmod(0o644)
        context = ssl.create_default_context(cafile=str(joined))
        # Alone too: a file without one certificate would pass unnoticed among the public ones.
        ssl.create_default_context(cafile=str(ca_bundle))
    except (OSError, ssl.SSLError) as problem:
        raise BadEnvironment(
            f"The certificates in {ca_bundle} cannot be used ({problem}): give a file of PEM certificates."
        ) from problem
    environ["AWS_CA_BUNDLE"] = environ["SSL_CERT_FILE"] = str(joined)
    return context
