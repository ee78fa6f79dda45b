"""A value in the environment that makes no sense stops the start with a sentence."""

import errno
import os
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from config.databases import build_database_settings
from config.environment import YEAR_SECONDS, InvalidSettingError, read_environment
from tests.wiring import production_environment


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment with nothing but a state folder in it."""
    for name in (*production_environment(), "PORT", "SLIPWAY_SANDBOX_PORT", "SLIPWAY_WORKER_CONCURRENCY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLIPWAY_HOME", str(tmp_path / "state"))
    return monkeypatch


def test_a_bare_machine_needs_no_variables(bare: pytest.MonkeyPatch) -> None:
    environment = read_environment()

    assert environment.embedded
    assert environment.secret_key
    assert environment.field_encryption_keys


def test_own_keys_stay_the_same_and_are_closed_to_others(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = read_environment(), read_environment()

    assert first.secret_key == second.secret_key
    assert first.field_encryption_keys == second.field_encryption_keys
    for file in (tmp_path / "state" / "keys").iterdir():
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["field_encryption_key", "secret_key"])
def test_an_empty_key_file_is_refused_and_not_used_as_a_key(
    bare: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    read_environment()
    (tmp_path / "state" / "keys" / name).write_text("")

    with pytest.raises(InvalidSettingError, match=f"{name} is empty or cut off"):
        read_environment()


def test_a_key_that_could_not_be_written_leaves_no_file(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with bare.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            read_environment()
    assert list((tmp_path / "state" / "keys").iterdir()) == []
    assert read_environment().field_encryption_keys


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("SLIPWAY_MODE", "staging"),
        ("DATABASE_URL", "mysql://root@127.0.0.1/slipway"),
        ("DATABASE_URL", "localhost"),
        ("DATABASE_URL", "postgres://db.example.com"),
        ("DATABASE_URL", "postgres://db.example.com:many/slipway"),
        ("DATABASE_URL", "postgres://slipway:12/34@db.example.com/slipway"),
        ("DATABASE_URL", "postgres://slipway:12#34@db.example.com/slipway"),
        ("DATABASE_URL", "postgres://slipway:12?34@db.example.com/slipway"),
        ("DATABASE_URL", "sqlite://slipway.sqlite3"),
        ("SLIPWAY_DATABASE_POOL_SIZE", "0"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "redis://127.0.0.1:6379/3"),
        ("REDIS_URL", "redis://127.0.0.1:many"),
        ("PUBLIC_URL", "https://slipway.example.com:many"),
        ("FIELD_ENCRYPTION_KEY", "too-short"),
        ("SLIPWAY_SANDBOX_SPEED", "0"),
        ("SLIPWAY_WORKER_CONCURRENCY", "-1"),
        ("LOG_LEVEL", "LOUD"),
        ("EMAIL_URL", "mail.example.com:25"),
        ("EMAIL_URL", "smtp://mail.example.com:many"),
        ("OIDC_ISSUER", "login.example.com"),
        ("OIDC_ISSUER", "https://login.example.com"),
        ("OIDC_SCOPES", "profile email"),
        ("SLIPWAY_KEEP_EXECUTIONS_DAYS", "-1"),
        ("SLIPWAY_KEEP_EXECUTIONS_DAYS", "29"),
        ("SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS", "7"),
        ("SLIPWAY_KEEP_DELEGATE_LOGS_DAYS", "0"),
        ("SLIPWAY_KEEP_NOTIFICATIONS_DAYS", "forever"),
    ],
)
def test_nonsense_is_refused_with_the_name_of_the_variable(
    bare: pytest.MonkeyPatch, name: str, value: str
) -> None:
    bare.setenv(name, value)

    with pytest.raises(InvalidSettingError, match=name):
        read_environment()


def test_logs_cannot_outlive_their_executions(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("SLIPWAY_KEEP_EXECUTIONS_DAYS", "60")
    bare.setenv("SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS", "90")

    with pytest.raises(InvalidSettingError, match="the executions are deleted after 60 days"):
        read_environment()


@pytest.mark.parametrize("name", [name for name in production_environment() if name != "SLIPWAY_MODE"])
def test_production_does_not_start_without(bare: pytest.MonkeyPatch, name: str) -> None:
    for variable, value in production_environment().items():
        bare.setenv(variable, value)
    bare.delenv(name)

    with pytest.raises(InvalidSettingError, match=name):
        read_environment()


def test_single_sign_on_in_production_is_encrypted(bare: pytest.MonkeyPatch) -> None:
    sign_on = {"OIDC_CLIENT_ID": "slipway", "OIDC_CLIENT_SECRET": "x", "OIDC_ISSUER": "http://login.example"}
    for name, value in {**production_environment(), **sign_on}.items():
        bare.setenv(name, value)
    with pytest.raises(InvalidSettingError, match="OIDC_ISSUER"):
        read_environment()
    bare.setenv("OIDC_ISSUER", "https://login.example")
    assert read_environment().oidc_issuer == "https://login.example"


def test_a_second_encryption_key_is_for_rotation(bare: pytest.MonkeyPatch) -> None:
    old, new = (production_environment()["FIELD_ENCRYPTION_KEY"] for _ in range(2))
    bare.setenv("FIELD_ENCRYPTION_KEY", f"{new}, {old}")

    assert read_environment().field_encryption_keys == (new, old)


@pytest.mark.parametrize("first", ["", "1"])
def test_encryption_keys_in_two_variables_are_refused(bare: pytest.MonkeyPatch, first: str) -> None:
    bare.setenv("FIELD_ENCRYPTION_KEY", first and Fernet.generate_key().decode())
    bare.setenv("FIELD_ENCRYPTION_KEYS", Fernet.generate_key().decode())
    with pytest.raises(InvalidSettingError, match="are both set: write all keys into the first"):
        read_environment()


def test_what_the_process_is_in_aws_is_lent_in_production_only_on_purpose(bare: pytest.MonkeyPatch) -> None:
    assert read_environment().lends_own_credentials
    for variable, value in production_environment().items():
        bare.setenv(variable, value)
    assert not read_environment().lends_own_credentials
    bare.setenv("SLIPWAY_ALLOW_MANAGER_CREDENTIALS", "true")
    assert read_environment().lends_own_credentials


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SECRET_KEY", "short"),
        ("SECRET_KEY", "ab" * 40),
        ("DEBUG", "true"),
        ("PUBLIC_URL", "slipway.example.com"),
        ("PUBLIC_URL", "https://example.com/slipway"),
        ("PUBLIC_URL", "https://example.com?next=slipway"),
        ("PUBLIC_URL", "https://user@example.com"),
        ("SLIPWAY_HSTS_SECONDS", "-1"),
        ("SLIPWAY_HSTS_PRELOAD", "true"),
    ],
)
def test_production_refuses_what_is_weak_or_wrong(bare: pytest.MonkeyPatch, name: str, value: str) -> None:
    for variable, sound in production_environment().items():
        bare.setenv(variable, sound)
    assert read_environment().hsts_seconds == YEAR_SECONDS
    bare.setenv(name, value)

    with pytest.raises(InvalidSettingError, match=name):
        read_environment()


def test_the_owner_of_a_domain_decides_about_its_subdomains(bare: pytest.MonkeyPatch) -> None:
    for variable, value in production_environment().items():
        bare.setenv(variable, value)
    assert not read_environment().hsts_covers_subdomains
    for name, value in {"SLIPWAY_HSTS_SUBDOMAINS": "true", "SLIPWAY_HSTS_PRELOAD": "true"}.items():
        bare.setenv(name, value)

    assert read_environment().hsts_preload


def test_passwords_of_a_secret_store_come_by_themselves(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("DATABASE_URL", "postgres://slipway@db.example:5432/slipway?sslmode=require")
    bare.setenv("DATABASE_PASSWORD", "p/ss@word:")
    bare.setenv("REDIS_URL", "rediss://cache.example:6379")
    bare.setenv("REDIS_PASSWORD", "t%ken")
    environment = read_environment()

    assert (
        environment.database_url
        == "postgres://slipway:p%2Fss%40word%3A@db.example:5432/slipway?sslmode=require"
    )
    assert build_database_settings(environment.database_url, environment.home)["PASSWORD"] == "p/ss@word:"
    assert environment.redis_url == "rediss://:t%25ken@cache.example:6379"


@pytest.mark.parametrize("url", ["", "postgres://slipway:other@db.example/slipway"])
def test_a_password_without_a_place_is_refused(bare: pytest.MonkeyPatch, url: str) -> None:
    bare.setenv("DATABASE_URL", url)
    bare.setenv("DATABASE_PASSWORD", "secret")

    with pytest.raises(InvalidSettingError, match="DATABASE_URL"):
        read_environment()


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL", "EMAIL_URL"])
def test_a_password_that_breaks_its_url_is_not_shown(bare: pytest.MonkeyPatch, name: str) -> None:
    scheme = {"DATABASE_URL": "postgres", "REDIS_URL": "redis", "EMAIL_URL": "smtp"}[name]
    bare.setenv(name, f"{scheme}://slipway:hunter/2@example.com/slipway")

    with pytest.raises(InvalidSettingError, match=f"{name}.*percent codes") as refusal:
        read_environment()
    assert "hunter" not in str(refusal.value)


def test_a_generated_key_needs_no_padding(bare: pytest.MonkeyPatch) -> None:
    """A secret store generates letters and digits: 43 of them are 32 bytes in base64."""
    bare.setenv("FIELD_ENCRYPTION_KEY", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nO2q")

    [key] = read_environment().field_encryption_keys
    assert Fernet(key).decrypt(Fernet(key).encrypt(b"value")) == b"value"


def test_keys_of_reports_and_traces_and_encoded_passwords_are_masked(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("SENTRY_DSN", "https://0123456789abcdef@errors.example.com/1")
    bare.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-api-key=trace-key-1234")
    bare.setenv("REDIS_URL", "redis://:p%61ss%2fword@127.0.0.1:6379")

    secrets = set(read_environment().secrets)

    assert {"0123456789abcdef", "trace-key-1234", "p%61ss%2fword", "pass/word"} <= secrets
