"""Environment variables, typed and validated once at startup."""

import os
import secrets
import tomllib
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, ClassVar, Literal
from urllib.parse import SplitResult, quote, urlsplit

from cryptography.fernet import Fernet
from pydantic import AliasChoices, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from guards import limits
from guards.address_policy import parse_networks
from guards.environment_secrets import list_export_secrets, list_url_secrets

ROOT = Path(__file__).resolve().parent.parent
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

DATABASE_SCHEMES = ("sqlite", "postgres", "postgresql")
MAIL_SCHEMES = ("smtp", "smtps")
BROKER_SCHEMES = ("redis", "rediss")
SECRET_KEY_CHARACTERS = 50
YEAR_SECONDS = 31_536_000
MOST_KEPT_DAYS = 36_500
# A rollback may be needed weeks later.
LEAST_EXECUTION_DAYS = 30
RETENTION_PREFIX = "SLIPWAY_KEEP_"
# 32 bytes in base64, without the padding.
UNPADDED_KEY_CHARACTERS = 43


class InvalidSettingError(SystemExit):
    """Error raised for an invalid environment variable."""


class EnvironmentSettings(BaseSettings):
    """The variables that Slipway reads. Every one has a default that works on a bare machine."""

    REQUIRED_IN_PRODUCTION: ClassVar = (
        "DATABASE_URL",
        "REDIS_URL",
        "SECRET_KEY",
        "FIELD_ENCRYPTION_KEY",
        "PUBLIC_URL",
    )

    model_config = SettingsConfigDict(
        case_sensitive=True, extra="ignore", populate_by_name=True, use_attribute_docstrings=True
    )

    mode: Literal["embedded", "production"] = Field("embedded", alias="SLIPWAY_MODE")
    """`embedded` starts the demo with a sandbox; `production` has neither and needs more settings."""
    home: Path = Field(ROOT / ".slipway", alias="SLIPWAY_HOME")
    """The folder of the database, broker, sandbox and keys of `make run`."""
    port: int = Field(8000, alias="PORT", ge=1, le=65535)
    """The port of the web server. The sandbox of `make run` listens on the next one."""
    debug: bool = Field(False, alias="DEBUG")
    """Django's debug pages; never in production."""
    database_url: str = Field("", alias="DATABASE_URL")
    """`postgres://user:password@host:5432/name`, with options of libpq such as `?sslmode=verify-full`. Empty:
    SQLite in `SLIPWAY_HOME`.
    """
    database_password: str = Field("", alias="DATABASE_PASSWORD")
    """The password for `DATABASE_URL` where the URL has none, such as one that a secret store injects."""
    database_pool_size: int = Field(8, alias="SLIPWAY_DATABASE_POOL_SIZE", ge=1, le=200)
    """Connections to PostgreSQL that one web process keeps at most."""
    redis_url: str = Field("", alias="REDIS_URL")
    """`redis://host:6379` or `rediss://…`, without a database number: Slipway uses 0, 1 and 2. Empty: `make
    run` starts a Valkey.
    """
    redis_password: str = Field("", alias="REDIS_PASSWORD")
    """The password for `REDIS_URL`, as it is, where the URL has none."""
    secret_key: str = Field("", alias="SECRET_KEY")
    """Signs sessions; at least 50 random characters."""
    field_encryption_keys: Annotated[tuple[str, ...], NoDecode] = Field(
        (), validation_alias=AliasChoices("FIELD_ENCRYPTION_KEY", "FIELD_ENCRYPTION_KEYS")
    )
    """Keys that encrypt secrets in the database, separated by commas: the first encrypts, all decrypt."""
    public_url: str = Field("", alias="PUBLIC_URL")
    """The URL that people open, such as `https://slipway.example.com`. With https, cookies are secure and
    HTTP is redirected.
    """
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field((), alias="ALLOWED_HOSTS")
    """More host names that requests may name, separated by commas."""
    sandbox_port: int = Field(0, alias="SLIPWAY_SANDBOX_PORT", ge=0, le=65535)
    """The port of the sandbox; 0 is the one after `PORT`."""
    sandbox_speed: float = Field(10.0, alias="SLIPWAY_SANDBOX_SPEED", gt=0, le=1000)
    """How many times faster than AWS the sandbox runs."""
    aws_endpoints_allowed: bool | None = Field(None, alias="SLIPWAY_ALLOW_AWS_ENDPOINTS")
    """Whether connectors may set an AWS endpoint of their own. Unset: yes, in production no."""
    aws_quota_share: float = Field(1.0, alias="SLIPWAY_AWS_QUOTA_SHARE", gt=0, le=100)
    """The share of AWS's default API quota that is used at most, for each account and region; above 1 where
    AWS has raised the quota. Slipway starts at half of it, and learns from AWS.
    """
    manager_credentials_allowed: bool | None = Field(None, alias="SLIPWAY_ALLOW_MANAGER_CREDENTIALS")
    """Whether connectors may use the AWS credentials of Slipway itself. Unset: yes, in production no."""
    private_networks: Annotated[tuple[str, ...], NoDecode] = Field((), alias="SLIPWAY_PRIVATE_NETWORKS")
    """Private networks that Slipway may connect to, such as `10.0.0.0/8,fd12::/16`. Unset: all, in production
    none.
    """
    worker_concurrency: int = Field(2, alias="SLIPWAY_WORKER_CONCURRENCY", ge=1, le=64)
    """Processes of one Celery worker."""
    api_requests_per_minute: int = Field(
        limits.REQUESTS_PER_MINUTE, alias="SLIPWAY_API_REQUESTS_PER_MINUTE", ge=6, le=10_000_000
    )
    """Requests that one API key, or one person, may send to the API in a minute."""
    # Images of delegates; a legacy spec may need another image than the v3 spec (R092).
    delegate_image: str = Field(f"slipway-delegate:{VERSION}", alias="SLIPWAY_DELEGATE_IMAGE", min_length=1)
    """The image in the task definitions of new delegates."""
    legacy_delegate_image: str = Field("", alias="SLIPWAY_LEGACY_DELEGATE_IMAGE")
    """The image in legacy task definitions. Empty: the same as `SLIPWAY_DELEGATE_IMAGE`."""
    admin_needs_second_factor: bool = Field(False, alias="SLIPWAY_ADMIN_NEEDS_SECOND_FACTOR")
    """Whether the admin site is only for people with a passkey or an authenticator app."""
    oidc_issuer: str = Field("", alias="OIDC_ISSUER", max_length=200)
    """The issuer URL of the single sign-on provider (OpenID Connect). Empty: no single sign-on."""
    oidc_client_id: str = Field("", alias="OIDC_CLIENT_ID")
    """The client ID of Slipway at the provider."""
    oidc_client_secret: str = Field("", alias="OIDC_CLIENT_SECRET")
    """The client secret of Slipway at the provider."""
    oidc_name: str = Field("single sign-on", alias="OIDC_NAME", min_length=1, max_length=60)
    """The name on the button: “Sign in with …”."""
    oidc_scopes: str = Field("openid profile email", alias="OIDC_SCOPES", pattern=r"\bopenid\b")
    """The scopes that are requested from the provider."""
    oidc_groups_claim: str = Field("groups", alias="OIDC_GROUPS_CLAIM")
    """The claim that lists a person's groups. Empty: groups are not synchronized."""
    oidc_new_users_allowed: bool = Field(False, alias="OIDC_ALLOW_NEW_USERS")
    """Whether people whom only the provider knows get a user, without any role."""
    email_url: str = Field("", alias="EMAIL_URL")
    """The mail server: `smtp://user:password@host:587` (STARTTLS) or `smtps://…:465`. Empty: no e-mail is
    sent.
    """
    email_from: str = Field("", alias="EMAIL_FROM")
    """The sender of e-mails. Empty: `slipway@` and the host of `PUBLIC_URL`."""
    hsts_seconds: int = Field(YEAR_SECONDS, alias="SLIPWAY_HSTS_SECONDS", ge=0, le=63_072_000)
    """How long browsers open the host of `PUBLIC_URL` by https only (Strict-Transport-Security). 0: no such
    header. Only with an https `PUBLIC_URL`.
    """
    hsts_covers_subdomains: bool = Field(False, alias="SLIPWAY_HSTS_SUBDOMAINS")
    """Whether this also holds for all subdomains of that host."""
    hsts_preload: bool = Field(False, alias="SLIPWAY_HSTS_PRELOAD")
    """Whether the header allows browsers to ship the host in their lists; hard to undo. Needs
    `SLIPWAY_HSTS_SUBDOMAINS` and a year of `SLIPWAY_HSTS_SECONDS`.
    """
    health_token: str = Field("", alias="SLIPWAY_HEALTH_TOKEN")
    """In production, `/healthz` and `/readyz` answer the local network, and who sends this token
    (`Authorization: Bearer …`). At least 16 characters; empty: the local network only.
    """
    worker_metrics_port: int = Field(0, alias="SLIPWAY_WORKER_METRICS_PORT", ge=0, le=65535)
    """The port on which a worker serves its counters to Prometheus under `/metrics`. 0: none."""
    keep_executions_days: int = Field(0, alias="SLIPWAY_KEEP_EXECUTIONS_DAYS", ge=0, le=MOST_KEPT_DAYS)
    """How many days executions are kept after their end; 0: forever, else at least 30. The newest run of each
    pipeline, and what runs in ECS now, is always kept.
    """
    keep_execution_details_days: int = Field(
        0, alias="SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS", ge=0, le=MOST_KEPT_DAYS
    )
    """How many days the logs, AWS calls and AWS events of ended executions are kept; 0: as long as the
    executions, else at least 30.
    """
    keep_ecs_events_days: int = Field(90, alias="SLIPWAY_KEEP_ECS_EVENTS_DAYS", ge=1, le=MOST_KEPT_DAYS)
    """How many days the events of ECS services in the inventory are kept."""
    keep_stopped_tasks_days: int = Field(30, alias="SLIPWAY_KEEP_STOPPED_TASKS_DAYS", ge=1, le=MOST_KEPT_DAYS)
    """How many days stopped ECS tasks are kept in the inventory."""
    keep_drift_days: int = Field(90, alias="SLIPWAY_KEEP_DRIFT_DAYS", ge=1, le=MOST_KEPT_DAYS)
    """How many days drift is kept after it was resolved."""
    keep_notifications_days: int = Field(30, alias="SLIPWAY_KEEP_NOTIFICATIONS_DAYS", ge=2, le=MOST_KEPT_DAYS)
    """How many days sent and failed notifications are kept."""
    keep_delegate_tasks_days: int = Field(
        7, alias="SLIPWAY_KEEP_DELEGATE_TASKS_DAYS", ge=1, le=MOST_KEPT_DAYS
    )
    """How many days ended delegate tasks are kept, with their logs."""
    keep_delegate_logs_days: int = Field(7, alias="SLIPWAY_KEEP_DELEGATE_LOGS_DAYS", ge=1, le=MOST_KEPT_DAYS)
    """How many days the own logs of delegates are kept."""
    keep_delegate_events_days: int = Field(
        30, alias="SLIPWAY_KEEP_DELEGATE_EVENTS_DAYS", ge=1, le=MOST_KEPT_DAYS
    )
    """How many days the events of delegates are kept."""
    archive_delegates_days: int = Field(30, alias="SLIPWAY_ARCHIVE_DELEGATES_DAYS", ge=1, le=MOST_KEPT_DAYS)
    """After how many days without contact a delegate leaves the lists. It returns once an instance registers,
    or when somebody restores it.
    """
    keep_acceptance_runs_days: int = Field(
        365, alias="SLIPWAY_KEEP_ACCEPTANCE_RUNS_DAYS", ge=1, le=MOST_KEPT_DAYS
    )
    """How many days ended acceptance runs are kept, with their reports. One that left resources in AWS is
    always kept.
    """
    sentry_dsn: str = Field("", alias="SENTRY_DSN", pattern=r"^(https?://\S+@\S+)?$")
    """Where unexpected errors are reported: the DSN of a project in Sentry. Empty: nowhere.
    `SENTRY_ENVIRONMENT` is the name of this installation there.
    """
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", alias="LOG_LEVEL")
    """The level of the processes' own logs."""
    log_format: Literal["", "json", "text"] = Field("", alias="LOG_FORMAT")
    """The format of these logs: `json` for JSON lines, `text` for people. Empty: `json` in production, else
    `text`.
    """

    @field_validator("field_encryption_keys", "allowed_hosts", "private_networks", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(p.strip() for p in value.split(",") if p.strip()) if isinstance(value, str) else value

    @field_validator("private_networks")
    @classmethod
    def _validate_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            parse_networks(value)
        except ValueError as exc:
            raise ValueError(f"{exc}: write networks as 10.0.0.0/8, with commas between") from exc
        return value

    @field_validator("email_url")
    @classmethod
    def _validate_mail_server(cls, value: str) -> str:
        url = _split_url(value)
        if value and (url.scheme not in MAIL_SCHEMES or not url.hostname or url.port == 0):
            raise ValueError("use smtp://user:password@host:587 (STARTTLS), smtps://…:465, or leave it empty")
        return value

    @field_validator("health_token")
    @classmethod
    def _validate_health_token(cls, value: str) -> str:
        if value and len(value) < 16:
            raise ValueError("use at least 16 random characters, or leave it empty")
        return value

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().resolve()

    @field_validator("database_url")
    @classmethod
    def _validate_database(cls, value: str) -> str:
        url = _split_url(value)
        name = url.path.removeprefix("/")
        # A special character in the password ends the part with the host.
        is_postgres = url.scheme != "sqlite" and name and not {"/", "@"} & {*name} and not url.fragment
        is_sqlite = url.scheme == "sqlite" and name and not url.netloc
        if value and (url.scheme not in DATABASE_SCHEMES or not (is_postgres or is_sqlite)):
            raise ValueError(
                "use postgres://user:password@host/name with special characters as percent codes, "
                "sqlite:///path, or leave it empty"
            )
        return value

    @field_validator("public_url")
    @classmethod
    def _validate_public_url(cls, value: str) -> str:
        _split_url(value)
        return value

    @field_validator("redis_url")
    @classmethod
    def _validate_broker(cls, value: str) -> str:
        url = _split_url(value)
        is_known = url.scheme == "unix" or (url.scheme in BROKER_SCHEMES and url.hostname)
        if value and not is_known:
            raise ValueError("use redis://host:port, rediss://host:port, unix:///path, or leave it empty")
        if value and url.scheme != "unix" and url.path.strip("/"):
            raise ValueError("name no database number: Slipway uses 0, 1 and 2 of this server")
        return value

    @field_validator("field_encryption_keys")
    @classmethod
    def _refuse_two_variables(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse keys in two variables: those of the second would be ignored, and what they encrypted is
        lost.
        """
        singular, plural = (os.environ.get(f"FIELD_ENCRYPTION_{name}") for name in ("KEY", "KEYS"))
        if singular is not None and plural is not None and singular != plural:
            raise ValueError(
                "FIELD_ENCRYPTION_KEY and FIELD_ENCRYPTION_KEYS are both set: write all keys into the first, "
                "with commas between, the newest first, and remove the second"
            )
        return value

    @field_validator("field_encryption_keys")
    @classmethod
    def _pad_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Add the padding to keys of 43 characters: generators of secret stores end no value with `=`."""
        return tuple(f"{key}=" if len(key) == UNPADDED_KEY_CHARACTERS else key for key in value)

    @field_validator("field_encryption_keys")
    @classmethod
    def _fernet_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for key in value:
            try:
                Fernet(key)
            except ValueError as exc:
                raise ValueError("each key must be 32 url-safe base64 bytes (Fernet.generate_key())") from exc
        return value

    @model_validator(mode="after")
    def _add_passwords(self) -> "EnvironmentSettings":
        self.database_url = _add_password(self.database_url, self.database_password, "DATABASE")
        self.redis_url = _add_password(self.redis_url, self.redis_password, "REDIS")
        return self

    @model_validator(mode="after")
    def _validate_production(self) -> "EnvironmentSettings":
        if self.mode == "production":
            values = (
                self.database_url,
                self.redis_url,
                self.secret_key,
                self.field_encryption_keys,
                self.public_url,
            )
            needed = zip(self.REQUIRED_IN_PRODUCTION, values, strict=True)
            if missing := [name for name, value in needed if not value]:
                raise ValueError(f"SLIPWAY_MODE=production also needs {', '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _validate_production_values(self) -> "EnvironmentSettings":
        if self.mode != "production":
            return self
        if len(self.secret_key) < SECRET_KEY_CHARACTERS or len(set(self.secret_key)) < 10:
            raise ValueError(
                f"SECRET_KEY: use at least {SECRET_KEY_CHARACTERS} random characters, such as those of "
                "python -c 'import secrets; print(secrets.token_urlsafe(64))'"
            )
        if self.debug:
            raise ValueError("DEBUG: remove it; debug pages show settings and code to everybody")
        url = urlsplit(self.public_url)
        more = (url.path.strip("/"), url.query, url.fragment, url.username)
        if url.scheme not in ("https", "http") or not url.hostname or any(more):
            raise ValueError("PUBLIC_URL: use scheme and host only, such as https://slipway.example.com")
        return self

    @model_validator(mode="after")
    def _validate_hsts(self) -> "EnvironmentSettings":
        if self.hsts_preload and not (self.hsts_covers_subdomains and self.hsts_seconds >= YEAR_SECONDS):
            raise ValueError(
                "SLIPWAY_HSTS_PRELOAD also needs SLIPWAY_HSTS_SUBDOMAINS=true and SLIPWAY_HSTS_SECONDS of at "
                f"least {YEAR_SECONDS}"
            )
        return self

    @field_validator("keep_executions_days", "keep_execution_details_days")
    @classmethod
    def _validate_execution_days(cls, value: int) -> int:
        if 0 < value < LEAST_EXECUTION_DAYS:
            raise ValueError(f"use 0 (forever) or at least {LEAST_EXECUTION_DAYS} days")
        return value

    @model_validator(mode="after")
    def _validate_retention(self) -> "EnvironmentSettings":
        kept = self.keep_executions_days
        if kept and self.keep_execution_details_days > kept:
            raise ValueError(
                f"SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS is {self.keep_execution_details_days}, but "
                f"the executions are deleted after {kept} days (SLIPWAY_KEEP_EXECUTIONS_DAYS)"
            )
        return self

    @model_validator(mode="after")
    def _validate_oidc(self) -> "EnvironmentSettings":
        if not self.oidc_issuer:
            return self
        url = urlsplit(self.oidc_issuer)
        if not url.hostname or url.scheme not in (("https", "http") if self.embedded else ("https",)):
            raise ValueError("OIDC_ISSUER: use the https address that the provider calls itself")
        needed = {"OIDC_CLIENT_ID": self.oidc_client_id, "OIDC_CLIENT_SECRET": self.oidc_client_secret}
        if missing := [name for name, value in needed.items() if not value]:
            raise ValueError(f"OIDC_ISSUER also needs {', '.join(missing)}")
        return self

    @property
    def embedded(self) -> bool:
        return self.mode == "embedded"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the values that no log line or report may contain; those that are not set are empty."""
        urls = (self.database_url, self.redis_url, self.email_url)
        passwords = (secret for url in urls for secret in list_url_secrets(url))
        own = (self.secret_key, *self.field_encryption_keys, self.oidc_client_secret, self.health_token)
        # The user name in a DSN is its key.
        exports = (*list_url_secrets(self.sentry_dsn, is_user_secret=True), *list_export_secrets())
        return (*own, *passwords, *exports)

    @property
    def retention_days(self) -> dict[str, int]:
        """Return the days of each retention setting by its variable; 0 is forever."""
        fields = type(self).model_fields.items()
        return {
            field.alias: getattr(self, name)
            for name, field in fields
            if field.alias and field.alias.startswith(RETENTION_PREFIX)
        }

    @property
    def lends_own_credentials(self) -> bool:
        """Return whether connectors may use this process's AWS credentials; in production only if enabled."""
        allowed = self.manager_credentials_allowed
        return self.embedded if allowed is None else allowed


def _split_url(value: str) -> SplitResult:
    """Return the parts of a URL. Raises `ValueError` without a part of it, which may be a password."""
    try:
        url = urlsplit(value)
        # Reading the port validates it.
        _ = url.port
    except ValueError:
        raise ValueError(
            "this is no URL: write special characters of user and password as percent codes, and the port as "
            "a number"
        ) from None
    return url


def _add_password(address: str, password: str, name: str) -> str:
    """Return a URL with a password. Raises `ValueError` for a URL that has one, or no host."""
    if not password:
        return address
    url = urlsplit(address)
    if not url.hostname:
        raise ValueError(f"{name}_PASSWORD also needs {name}_URL with a host")
    if url.password is not None:
        raise ValueError(f"{name}_URL has a password already: remove it, or {name}_PASSWORD")
    user, _, place = url.netloc.rpartition("@")
    return url._replace(netloc=f"{user}:{quote(password, safe='')}@{place}").geturl()


def read_environment() -> EnvironmentSettings:
    """Read and check the environment.

    Raises `InvalidSettingError` (which ends the program with a sentence) on a value that makes no sense.
    """
    try:
        environment = EnvironmentSettings()
    except ValidationError as exc:
        lines = [f"  {'.'.join(str(p) for p in e['loc']) or 'environment'}: {e['msg']}" for e in exc.errors()]
        raise InvalidSettingError(
            "Slipway cannot start, the environment is wrong:\n" + "\n".join(lines)
        ) from exc
    return _add_generated_keys(environment) if environment.embedded else environment


def _add_generated_keys(environment: EnvironmentSettings) -> EnvironmentSettings:
    """Fill in keys that were not given from files that only this user can read, made on first use."""
    keys = environment.home / "keys"
    return environment.model_copy(
        update={
            "secret_key": environment.secret_key
            or _read_or_create_key(keys / "secret_key", secrets.token_urlsafe(64)),
            "field_encryption_keys": environment.field_encryption_keys
            or (_read_or_create_key(keys / "field_encryption_key", Fernet.generate_key().decode()),),
        }
    )


def _read_or_create_key(path: Path, fresh: str) -> str:
    """Return the key in a file, which is there with all of its content or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        # Private to its owner. The link fails if another process was faster.
        with NamedTemporaryFile("w", dir=path.parent) as draft, suppress(FileExistsError):
            draft.write(fresh)
            draft.flush()
            os.fsync(draft.fileno())
            os.link(draft.name, path)
    if len(key := path.read_text().strip()) < UNPADDED_KEY_CHARACTERS:
        raise InvalidSettingError(
            f"Slipway cannot start: the key in {path} is empty or cut off. Put it back from a copy. Without "
            "one, delete the file: sessions end, and secrets that it has encrypted have to be entered again."
        )
    return key
