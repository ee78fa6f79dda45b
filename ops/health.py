"""Health and readiness endpoints."""

import json
from collections.abc import Callable
from functools import cache
from ipaddress import ip_address
from urllib.error import URLError
from urllib.request import urlopen

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponseNotAllowed, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import add_never_cache_headers
from django.utils.crypto import constant_time_compare

from ops.background import (
    CHECK_TIMEOUT_SECONDS,
    MAX_PULSE_AGE,
    create_broker_client,
    read_dispatcher_silence,
    read_queue_state,
)
from ops.backups.unfinished import find_unfinished_restore
from ops.migration_files import list_open_migrations
from ops.processes import ProcessState, list_processes
from web.clock import get_database_time


class NotReadyError(Exception):
    """Error raised by a failed check; the message names the part to inspect."""


class HealthMiddleware:
    """Answer probes before anything else, for any `Host`: a load balancer sends the address of its target.

    `/healthz` is 200 while this process works, independent of other parts. `/readyz` is 200 if all checks
    pass, also if some of several processes are silent ("degraded"), else 503 with the failed ones.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self.views = {"/healthz": _report_liveness, "/readyz": _report_readiness}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if (view := self.views.get(request.path)) is None:
            return self.get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        response = view() if may_read_internals(request) else refuse_caller()
        add_never_cache_headers(response)
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def may_read_internals(request: HttpRequest) -> bool:
    """Return whether the caller is on the local network, without a proxy between, or sends the token."""
    sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if settings.HEALTH_TOKEN and constant_time_compare(sent, settings.HEALTH_TOKEN):
        return True
    if settings.EMBEDDED:
        return True
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        # Of 100.64.0.0/10, which subnets of a VPC may have too, Python says neither private nor global.
        return not ip_address(request.META.get("REMOTE_ADDR", "")).is_global
    except ValueError:
        return False


def refuse_caller() -> JsonResponse:
    """Return the answer for a caller who may not read the state of the installation."""
    detail = "Call from the local network without a proxy, or with the token SLIPWAY_HEALTH_TOKEN."
    return JsonResponse({"status": "forbidden", "detail": detail}, status=403)


def _report_liveness() -> JsonResponse:
    return JsonResponse({"status": "alive"})


def _report_readiness() -> JsonResponse:
    failed = list_failed_checks()
    processes = [] if "database" in failed else list_processes(get_database_time())
    silent = {str(state.process): _describe_silence(state) for state in processes if state.is_silent}
    body = {
        "status": "not ready" if failed else "degraded" if silent else "ready",
        "missing": sorted(failed),
        "reasons": failed | silent,
        "processes": [_describe_process(state) for state in processes],
    }
    return JsonResponse(body, status=503 if failed else 200)


def _describe_silence(state: ProcessState) -> str:
    seconds = int(state.silence.total_seconds())
    return f"No sign of life for {seconds} s: it hangs, was killed, or cannot reach the database."


def _describe_process(state: ProcessState) -> dict[str, str | int]:
    process = state.process
    return {
        "role": process.get_role_display(),
        "host": process.hostname,
        "pid": process.pid,
        "version": process.version,
        "started_at": process.started_at.isoformat(),
        "last_seen_at": process.seen_at.isoformat(),
        "status": "silent" if state.is_silent else "alive",
    }


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
    if open_ones := list_open_migrations(connection):
        raise NotReadyError(f"{len(open_ones)} migrations are not applied. Run manage migrate.")
    return True


def _check_migrations() -> None:
    if reason := find_unfinished_restore():
        raise NotReadyError(reason)
    _is_migrated(connection.alias)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _check_broker() -> None:
    try:
        with create_broker_client() as client:
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
    now = get_database_time()
    silence = read_dispatcher_silence(now)
    if silence is not None and silence < MAX_PULSE_AGE:
        return {}
    last_run = "never ran" if silence is None else f"last ran at {now - silence:%H:%M:%S} UTC"
    # Unanswered requests mean that the beat runs and no worker does.
    name, process = (
        ("worker", "a Celery worker") if read_queue_state(now).depth else ("dispatcher", "Celery beat")
    )
    return {name: f"The dispatcher {last_run}; is {process} running?"}
