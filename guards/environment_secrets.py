"""Secrets in parts of environment variables: passwords of proxies and in URLs, headers of telemetry."""

import os
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

_SIGNALS: Final = ("", "TRACES_", "METRICS_", "LOGS_")
_PROXY_VARIABLES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


def list_url_secrets(url: str, *, is_user_secret: bool = False) -> list[str]:
    """Return the password in a URL as it is written and decoded; with `is_user_secret`, the user name too."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    written = [parts.password, parts.username if is_user_secret else ""]
    return [form for text in written if text for form in (text, unquote(text))]


def list_proxy_secrets(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the passwords of the proxies of a process, which its programs get too."""
    secrets = [environ.get("PROXY_PASSWORD", "")]
    for name in _PROXY_VARIABLES:
        for url in (environ.get(name, ""), environ.get(name.lower(), "")):
            secrets += list_url_secrets(url if "://" in url else f"//{url}")
    return [secret for secret in dict.fromkeys(secrets) if secret]


def list_export_secrets(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the secrets of OpenTelemetry's standard variables: all values of headers, passwords in URLs."""
    secrets: list[str] = []
    for signal in _SIGNALS:
        secrets += _iterate_header_secrets(environ.get(f"OTEL_EXPORTER_OTLP_{signal}HEADERS", ""))
        secrets += list_url_secrets(environ.get(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT", ""))
    return secrets


def _iterate_header_secrets(text: str) -> Iterator[str]:
    """Yield the values of `name=value,name=value` as written and decoded, and tokens without their scheme."""
    for pair in text.split(","):
        written = pair.partition("=")[2].strip()
        yield from (written, unquote(written))
        # As in "Bearer <token>".
        yield unquote(written).rpartition(" ")[2]
