"""Secrets in URLs and headers of environment variables are found in each form that may be printed."""

import pytest

from guards.environment_secrets import list_export_secrets, list_url_secrets
from guards.masks import SecretMask


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("", []),
        ("redis://host:6379", []),
        ("redis://:plain-password@host:6379", ["plain-password", "plain-password"]),
        # Written with escapes that nobody needs, and in small letters.
        ("postgres://user:p%40ss%77ord%2f1@host/name", ["p%40ss%77ord%2f1", "p@ssword/1"]),
        ("https://[bad", []),
    ],
)
def test_a_password_is_found_as_it_is_written_and_decoded(url: str, secrets: list[str]) -> None:
    assert list_url_secrets(url) == secrets


def test_the_user_name_counts_where_it_is_a_key() -> None:
    url = "https://0123456789abcdef@errors.example.com/1"
    assert list_url_secrets(url) == []
    assert "0123456789abcdef" in list_url_secrets(url, is_user_secret=True)


@pytest.mark.parametrize("signal", ["", "TRACES_", "METRICS_", "LOGS_"])
def test_headers_and_urls_of_every_signal_are_masked(signal: str) -> None:
    headers = "authorization=Bearer%20tok%2Den-1234, x-api-key = key-567890=="
    environ = {
        f"OTEL_EXPORTER_OTLP_{signal}HEADERS": headers,
        f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT": "https://user:p%61ssword@collector:4318",
    }
    mask = SecretMask(list_export_secrets(environ))
    for text in ("Bearer%20tok%2Den-1234", "Bearer tok-en-1234", "tok-en-1234", "key-567890==", "p%61ssword"):
        assert mask.mask_text(f"<{text}>") == "<•••>"
    assert mask.mask_text("Bearer of user") == "Bearer of user"


def test_without_these_variables_there_are_no_secrets() -> None:
    assert not any(list_export_secrets({}))
