"""Health and readiness endpoints."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from urllib.error import URLError
from urllib.request import urlopen

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from deployments.engine.dispatch import DISPATCHER
from deployments.models import Pulse

MAX_PULSE_AGE = timedelta(seconds=15)
CHECK_TIMEOUT_SECONDS = 2.0


class NotReadyError(Exception):
    """Error raised by a failed check; the message names the part to inspect."""


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200 while this process works, independent of other parts."""
    return JsonResponse({"status": "alive"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if all checks pass, else 503 with the failed ones."""
    reasons = list_failed_checks()
    body = {"status": "not ready" if reasons else "ready", "missing": sorted(reasons), "reasons": reasons}
    return JsonResponse(body, status=503 if reasons else 200)


def list_failed_checks() -> dict[str, str]:
    """Return the failed checks by name, with a sentence each."""
    checks: dict[str, Callable[[], None]] = {"database": _check_database, "broker": _check_broker}
    if settings.SANDBOX_URL:
        checks["sandbox"] = _check_sandbox
    reasons = {name: reason for name, check in checks.items() if (reason := _run_check(check))}
    # A worker writes the pulse row: without a database or a broker it would only repeat the failure.
    if not reasons.keys() & {"database", "broker"}:
        reasons |= _list_failed_background_checks()
    return reasons


def _run_check(check: Callable[[], None]) -> str:
    try:
        check()
    except NotReadyError as exc:
        return str(exc)
    return ""


def _check_database() -> None:
    try:
        _check_migrations()
    except DatabaseError as exc:
        raise NotReadyError("The database does not respond.") from exc


@cache
def _is_migrated(_alias: str) -> bool:
    """Return whether the database is migrated; a positive result is cached."""
    executor = MigrationExecutor(connection)
    if open_ones := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise NotReadyError(f"{len(open_ones)} migrations are not applied. Run manage.py migrate.")
    return True


def _check_migrations() -> None:
    _is_migrated(connection.alias)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _get_broker_client() -> "redis.Redis":
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=CHECK_TIMEOUT_SECONDS, socket_connect_timeout=CHECK_TIMEOUT_SECONDS
    )


def _check_broker() -> None:
    try:
        with _get_broker_client() as client:
            client.ping()
    except redis.RedisError as exc:
        raise NotReadyError("The broker (Valkey or Redis) does not respond.") from exc


def _check_sandbox() -> None:
    try:
        with urlopen((f"{settings.SANDBOX_URL}/sandbox/health"), timeout=CHECK_TIMEOUT_SECONDS) as answer:  # noqa: S310
            json.load(answer)
    except (URLError, OSError, ValueError) as exc:
        raise NotReadyError("The sandbox AWS account does not respond.") from exc


def _list_failed_background_checks() -> dict[str, str]:
    """Return the failures of worker and dispatcher: a worker writes a pulse for each request of the beat."""
    last = Pulse.objects.filter(name=DISPATCHER).values_list("at", flat=True).first()
    if last is not None and timezone.now() - last < MAX_PULSE_AGE:
        return {}
    last_run = "never ran" if last is None else f"last ran at {last:%H:%M:%S} UTC"
    with _get_broker_client() as client:
        waiting = client.llen(settings.CELERY_TASK_DEFAULT_QUEUE)
    # Unanswered requests mean that the beat runs and no worker does.
    name, process = ("worker", "a Celery worker") if waiting else ("dispatcher", "Celery beat")
    return {name: f"The dispatcher {last_run}; is {process} running?"}
