"""Checks of an installation, from settings to versions, each with the fix of what is wrong."""

import shutil
import smtplib
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

import redis
from django.conf import settings
from django.core import checks as system_checks
from django.core.mail import get_connection
from django.db import DatabaseError, connection

from aws.apis.iam import StsClient
from aws.errors import AwsError
from connectors.key_rotation import UNKNOWN_KEY, count_keys, list_rotatable_columns
from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import ConnectorUnavailable, get_local_caller
from delegates.access.remedies import find_remedy
from delegates.connectivity import is_connected
from delegates.install.images import parse_image
from delegates.models import DelegateInstance
from deployments.models import Execution
from guards.examinations import Check, Finding, Result, examine
from ops.background import create_broker_client
from ops.backups.unfinished import find_unfinished_restore
from ops.health import list_failed_checks
from ops.processes import list_processes
from rbac.operations.last_administrator import AdministratorTerm, find_administrator_term
from steps.states import Status
from web.clock import get_database_time
from web.epochs import get_epoch
from web.http.static_files import find_missing_static_files

OLDEST_POSTGRESQL: Final = 14
# Codes of second factors end after 30 s, signatures of AWS calls after 5 min.
CLOCK_WARNING_SECONDS, CLOCK_FAILURE_SECONDS = 5.0, 60.0
FREE_BYTES: Final = 500 * 2**20
MAX_CONNECTORS: Final = 10
SHOWN_NAMES: Final = 5
RESTORE_SHOWN_FOR: Final = timedelta(days=1)


def examine_installation(names: Collection[str] = ()) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of all checks, or of those in `names`, each as soon as it is known."""
    yield from examine(check for check in CHECKS if not names or check.name in names)


def _examine_settings() -> Iterator[Finding]:
    problems = system_checks.run_checks(include_deployment_checks=not settings.EMBEDDED)
    serious = [problem for problem in problems if not problem.is_silenced()]
    for problem in serious:
        result = Result.FAILED if problem.is_serious() else Result.WARNING
        yield Finding(result, f"{problem.msg} ({problem.id})", problem.hint or "")
    if settings.EMBEDDED:
        yield Finding(
            Result.WARNING,
            "The mode is embedded: a demo with a sandbox in place of AWS.",
            "Set SLIPWAY_MODE=production.",
        )
    elif not settings.SECURE:
        yield Finding(
            Result.WARNING,
            f"PUBLIC_URL is {settings.PUBLIC_URL}: passwords travel unencrypted.",
            "Put a proxy with TLS in front, and set PUBLIC_URL to its https URL.",
        )
    elif not serious:
        yield Finding(Result.OK, f"Production, at {settings.PUBLIC_URL}.")


def _examine_database() -> Iterator[Finding]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            if connection.vendor != "postgresql":
                yield Finding(
                    Result.OK if settings.EMBEDDED else Result.WARNING,
                    f"{connection.display_name}.",
                    "" if settings.EMBEDDED else "Use PostgreSQL: SQLite has one writer at a time.",
                )
                return
            cursor.execute("SHOW server_version_num")
            version = int(cursor.fetchone()[0]) // 10_000
            cursor.execute("SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity")
            used, allowed = cursor.fetchone()
    except DatabaseError as exc:
        yield Finding(
            Result.FAILED,
            f"The database does not answer: {_shorten(exc)}",
            "Check DATABASE_URL, the security group, and that the server runs.",
        )
        return
    if version < OLDEST_POSTGRESQL:
        yield Finding(
            Result.FAILED, f"PostgreSQL {version} is too old.", f"Upgrade to {OLDEST_POSTGRESQL} or newer."
        )
    elif used > 0.8 * allowed:
        yield Finding(
            Result.WARNING,
            f"PostgreSQL {version}: {used} of {allowed} connections are in use.",
            "Raise max_connections, or lower SLIPWAY_DATABASE_POOL_SIZE.",
        )
    else:
        yield Finding(Result.OK, f"PostgreSQL {version}, {used} of {allowed} connections in use.")


def _examine_migrations() -> Iterator[Finding]:
    if unfinished := find_unfinished_restore():
        message = "Run manage restore, not migrate, which refuses this database."
        yield Finding(Result.FAILED, unfinished, message)
    elif reason := list_failed_checks().get("database"):
        yield Finding(Result.FAILED, reason, "Run manage migrate (the role migrate of the image).")
    else:
        yield Finding(Result.OK, "All migrations are applied.")


def _examine_restores() -> Iterator[Finding]:
    epoch = get_epoch()
    if epoch is None or epoch.restored_at is None:
        yield Finding(Result.OK, "The database was not restored.")
        return
    text = (
        f"The database was restored to its state of {epoch.restored_from:%Y-%m-%d %H:%M:%S} UTC at "
        f"{epoch.restored_at:%Y-%m-%d %H:%M:%S} UTC."
    )
    if epoch.was_detected:
        text += " Nobody reported that: Valkey remembered a later state."
    waiting = Execution.objects.filter(status=Status.INTERVENTION_WAITING, restored_at__isnull=False).count()
    if waiting:
        yield Finding(
            Result.WARNING,
            f"{text} {waiting} executions that were under way wait for a person.",
            "Open each, compare AWS, and choose Go on or End without changes.",
        )
    elif epoch.was_detected and get_database_time() - epoch.restored_at < RESTORE_SHOWN_FOR:
        yield Finding(
            Result.WARNING,
            text,
            "Repeat what was changed and revoked since that state: users, roles, tokens.",
        )
    else:
        yield Finding(Result.OK, text)


def _examine_keys() -> Iterator[Finding]:
    columns = list_rotatable_columns()
    unreadable = {str(column): count_keys(column)[UNKNOWN_KEY] for column in columns}
    if total := sum(unreadable.values()):
        tables = ", ".join(name for name, count in unreadable.items() if count)
        yield Finding(
            Result.FAILED,
            f"{total} stored secrets cannot be decrypted ({tables}).",
            "Add the key that encrypted them to FIELD_ENCRYPTION_KEY, after the first one.",
        )
    else:
        yield Finding(Result.OK, "Every stored secret can be decrypted.")


def _examine_administrators() -> Iterator[Finding]:
    term = find_administrator_term()
    if term is AdministratorTerm.LASTING:
        yield Finding(Result.OK, "The role Account Admin is assigned without an expiry.")
    elif term is AdministratorTerm.EXPIRING:
        yield Finding(
            Result.WARNING,
            "The role Account Admin expires for everybody who has it.",
            "Assign it to an active user without an expiry.",
        )
    else:
        yield Finding(
            Result.WARNING,
            "No active user has the role Account Admin: nobody can assign it.",
            "Run manage createsuperuser, which creates a user with the role.",
        )


def _examine_broker() -> Iterator[Finding]:
    try:
        with create_broker_client() as client:
            version = client.info("server").get("valkey_version") or client.info("server")["redis_version"]
            policy = client.info("memory").get("maxmemory_policy", "noeviction")
    except (redis.RedisError, OSError) as exc:
        yield Finding(
            Result.FAILED,
            f"The broker does not answer: {_shorten(exc)}",
            "Check REDIS_URL, the security group, and that Valkey or Redis runs.",
        )
        return
    if policy != "noeviction":
        yield Finding(
            Result.WARNING,
            f"Version {version} evicts keys when memory is short ({policy}): wake-ups can be lost.",
            "Set maxmemory-policy to noeviction.",
        )
    else:
        yield Finding(Result.OK, f"Version {version}.")


def _examine_processes() -> Iterator[Finding]:
    failed = {name: text for name, text in list_failed_checks().items() if name in ("worker", "dispatcher")}
    for name, text in failed.items():
        yield Finding(Result.FAILED, text, f"Start the role {'worker' if name == 'worker' else 'beat'}.")
    states = list_processes(get_database_time())
    for state in states:
        if state.is_silent:
            yield Finding(
                Result.WARNING,
                f"The {state.process} gives no sign of life.",
                "Restart it if it should run.",
            )
    if not failed and not any(state.is_silent for state in states):
        yield Finding(Result.OK, f"{len(states)} web and worker processes, and beat.")


def _examine_clocks() -> Iterator[Finding]:
    clocks: dict[str, Callable[[], float]] = {"broker": _read_broker_clock}
    if connection.vendor == "postgresql":
        clocks["database"] = lambda: get_database_time().timestamp()
    for name, read in clocks.items():
        before = time.time()
        moment = read()
        # The answer came in between: only what lies outside is a difference.
        skew = max(before - moment, moment - time.time(), 0.0)
        if skew <= CLOCK_WARNING_SECONDS:
            yield Finding(Result.OK, f"This machine and the {name} agree within {CLOCK_WARNING_SECONDS:g} s.")
            continue
        yield Finding(
            Result.FAILED if skew > CLOCK_FAILURE_SECONDS else Result.WARNING,
            f"This machine and the {name} differ by {skew:.0f} s: second factors and AWS calls fail.",
            "Synchronize both with NTP.",
        )


def _read_broker_clock() -> float:
    with create_broker_client() as client:
        seconds, microseconds = client.time()
    return float(seconds) + float(microseconds) / 1e6


def _examine_storage() -> Iterator[Finding]:
    # Production writes nothing else below SLIPWAY_HOME, which may be read-only.
    folder = settings.GIT_CACHE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder), tempfile.NamedTemporaryFile():
            free = shutil.disk_usage(folder).free
    except OSError as exc:
        yield Finding(
            Result.FAILED, f"A folder cannot be written: {exc}", f"Mount {folder} and /tmp writable."
        )
        return
    if free < FREE_BYTES:
        yield Finding(
            Result.WARNING,
            f"{folder} has {free // 2**20} MiB left.",
            "Enlarge the volume: fetched repositories need space.",
        )
    else:
        yield Finding(Result.OK, f"{folder} is writable and has {free // 2**30} GiB left.")
    if missing := find_missing_static_files():
        yield Finding(
            Result.FAILED,
            f"{len(missing)} static files were not collected, such as {missing[0]}.",
            "Run manage collectstatic with the SLIPWAY_HOME of the web processes.",
        )


def _examine_mail() -> Iterator[Finding]:
    if not settings.EMAIL_HOST:
        yield Finding(Result.SKIPPED, "EMAIL_URL is not set: invitations and password links are not sent.")
        return
    server = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    try:
        with get_connection():
            yield Finding(Result.OK, f"{server} accepts the connection.")
    except (OSError, smtplib.SMTPException) as exc:
        yield Finding(Result.FAILED, f"{server}: {_shorten(exc)}", "Check EMAIL_URL and the outbound rules.")


def _examine_aws() -> Iterator[Finding]:
    rows = Connector.objects.filter(kind=Connector.Kind.AWS).order_by("scope__path", "identifier")
    local = [row for row in rows.select_related("scope", "secret") if not parse_aws_spec(row.spec).is_remote]
    if not local:
        yield Finding(Result.SKIPPED, "No connector calls AWS from here; delegates have their own checks.")
    for connector in islice(local, MAX_CONNECTORS):
        yield _examine_connector(connector)
    if len(local) > MAX_CONNECTORS:
        yield Finding(Result.SKIPPED, f"{len(local) - MAX_CONNECTORS} more connectors were not checked.")


def _examine_connector(connector: Connector) -> Finding:
    spec = parse_aws_spec(connector.spec)
    place = f"{connector.scope.path}/{connector.identifier}"
    try:
        identity = StsClient(get_local_caller(connector, spec.test_region)).get_identity()
    except ConnectorUnavailable as problem:
        return Finding(Result.FAILED, f"{place}: {problem}", "Edit the connector.")
    except AwsError as problem:
        return Finding(
            Result.FAILED, f"{place}: {problem}", find_remedy(problem, spec, spec.test_region).text
        )
    return Finding(Result.OK, f"{place}: account {identity.account_id}, {identity.arn}.")


def _examine_versions() -> Iterator[Finding]:
    own = settings.SLIPWAY_VERSION
    states = list_processes(get_database_time())
    other = sorted(
        {f"{row.process} has {row.process.version}" for row in states if row.process.version != own}
    )
    if other:
        yield Finding(
            Result.WARNING,
            f"This is {own}; {'; '.join(other[:SHOWN_NAMES])}.",
            "Finish the upgrade: run one version.",
        )
    else:
        yield Finding(Result.OK, f"Slipway {own} everywhere.")
    yield from _examine_delegate_images(own)


def _examine_delegate_images(own: str) -> Iterator[Finding]:
    for image in sorted(set(settings.DELEGATE_IMAGES.values())):
        if parse_image(image).is_mutable:
            yield Finding(
                Result.WARNING,
                f"New delegates get {image}, which names no version.",
                "Set SLIPWAY_DELEGATE_IMAGE to a tag of the version, or to a digest.",
            )
    now = datetime.now(UTC)
    instances = DelegateInstance.objects.exclude(version__in=["", own]).select_related("delegate")
    other = sorted({f"{row} has {row.version}" for row in instances if is_connected(row, now)})
    if other:
        yield Finding(
            Result.WARNING,
            f"{len(other)} delegate instances have another version: {'; '.join(other[:SHOWN_NAMES])}.",
            "Upgrade the delegates.",
        )


def _shorten(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300] or type(problem).__name__


CHECKS: Final = (
    Check("settings", _examine_settings),
    Check("database", _examine_database),
    Check("migrations", _examine_migrations, needs=("database",)),
    Check("restores", _examine_restores, needs=("database", "migrations")),
    Check("encryption keys", _examine_keys, needs=("database", "migrations")),
    Check("administrators", _examine_administrators, needs=("database", "migrations")),
    Check("broker", _examine_broker),
    Check("processes", _examine_processes, needs=("database", "migrations", "broker")),
    Check("clocks", _examine_clocks, needs=("database", "broker")),
    Check("storage", _examine_storage),
    Check("e-mail", _examine_mail),
    Check("AWS", _examine_aws, needs=("database", "migrations", "encryption keys")),
    Check("versions", _examine_versions, needs=("database", "migrations")),
)
