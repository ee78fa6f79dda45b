"""Operations on freeze windows, and the runs that they block."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from catalog.models import Environment, Service
from catalog.operations.resources import increment_version
from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from deployments.freezes.schedule import (
    WEEK,
    FreezePeriod,
    FreezeTarget,
    list_blocking_windows,
    parse_local_time,
)
from deployments.models import Execution, FreezeWindow
from guards.limits import FREEZE_NAMES, NAME_CHARACTERS
from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from pipelines.definition.stage_targets import StageTarget, find_stage_targets
from pipelines.models import Pipeline
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import Forbidden, Principal, build_below_filter, can, filter_visible, require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

MANAGE: Final = "core_deploymentfreeze_manage"
GLOBAL: Final = "core_deploymentfreeze_global"
OVERRIDE: Final = "core_deploymentfreeze_override"
_RUN: Final = "core_pipeline_execute"
# Each of them shows the windows of a scope: a blocked run names them anyway.
_VIEWERS: Final = (MANAGE, OVERRIDE, _RUN)
# Nearer to both ends of the calendar a local time may have no UTC.
_YEARS: Final = range(1970, 9999)


class RunFrozen(Conflict):
    """Error raised for a run in a freeze window."""

    code = "frozen"


@dataclass(frozen=True)
class FreezeSpec:
    """Fields of a freeze window except its identifier."""

    name: str
    begins: str
    ends: str
    reason: str = ""
    time_zone: str = "UTC"
    weekly: bool = False
    services: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    environment_kind: str = ""
    enabled: bool = True


def create_freeze(*, actor: User, scope: Scope, identifier: str, spec: FreezeSpec) -> FreezeWindow:
    """Add a freeze window. Raises `BadInput` or `Conflict`, and `Forbidden` without the right to."""
    _require_managing(actor, scope)
    require_valid_identifier(identifier)
    window = FreezeWindow(scope=scope, identifier=identifier)
    _apply_spec(window, spec)
    try:
        with transaction.atomic():
            window.save()
            record_audit_entry(actor=actor, action="freezewindow.create", thing=window, after=_record(window))
    except IntegrityError as exc:
        raise build_identifier_conflict("freeze window", identifier) from exc
    return window


def update_freeze(
    *, actor: User, window: FreezeWindow, spec: FreezeSpec, version: int | None = None
) -> FreezeWindow:
    """Update a freeze window; running executions continue. Raises `VersionConflict`."""
    _require_managing(actor, window.scope, window)
    before = _record(window)
    _apply_spec(window, spec)
    with transaction.atomic():
        increment_version(window, version)
        window.save()
        record_audit_entry(
            actor=actor, action="freezewindow.update", thing=window, before=before, after=_record(window)
        )
    return window


def delete_freeze(*, actor: User, window: FreezeWindow) -> None:
    """Remove a freeze window."""
    _require_managing(actor, window.scope, window)
    with transaction.atomic():
        record_audit_entry(actor=actor, action="freezewindow.delete", thing=window, before=_record(window))
        window.delete()


def list_targets(targets: Iterable[StageTarget]) -> list[FreezeTarget]:
    """Return the targets of a run for matching windows."""
    return [
        FreezeTarget(target.service.identifier, target.environment.identifier, target.environment.kind)
        for target in targets
    ]


def list_execution_targets(execution: Execution) -> list[FreezeTarget]:
    """Return the targets of an execution, fixed at its start."""
    all_values = (stage.values for stage in execution.stages.all())
    return [
        FreezeTarget(values["service"]["identifier"], values["env"]["identifier"], values["env"]["type"])
        for values in all_values
        if "service" in values and "env" in values
    ]


def list_retry_targets(execution: Execution) -> list[FreezeTarget]:
    """Return the targets of a retry of an execution; no window blocks the retry of a rollback."""
    return [] if execution.rerun_of_id else list_execution_targets(execution)


def list_active_windows(
    scope: Scope, places: Iterable[FreezeTarget]
) -> list[tuple[FreezeWindow, FreezePeriod]]:
    """Return the active windows of a scope and those above that block these targets, longest first."""
    rows = FreezeWindow.objects.filter(scope__path__in=scope.ancestor_paths(), enabled=True)
    return list_blocking_windows(rows.select_related("scope"), places, get_database_time())


def list_applicable_windows(actor: Principal, scope: Scope) -> QuerySet[FreezeWindow]:
    """Return the windows of a scope and of those above it, which block its runs.

    They are visible to users who may run pipelines here, or manage or override freezes.
    """
    rows = FreezeWindow.objects.select_related("scope")
    if not can_view_freezes(actor, scope):
        return rows.none()
    return rows.filter(scope__path__in=scope.ancestor_paths())


def list_visible_windows(actor: Principal, scope: Scope | None) -> QuerySet[FreezeWindow]:
    """Return the windows of a scope and below it that the actor may view: those that block its runs too."""
    rows = FreezeWindow.objects.select_related("scope")
    return reduce(or_, (filter_visible(actor, permission, rows, scope) for permission in _VIEWERS))


def list_unknown_names(actor: Principal, window: FreezeWindow) -> list[str]:
    """Return the identifiers in a window that no service or environment has, of those the actor may view."""
    scope = window.scope
    # Pipelines of the scope also deploy services of the scopes above.
    reach = Q(scope__path__in=scope.ancestor_paths()) | build_below_filter(scope)
    services = filter_visible(actor, "core_service_view", Service.objects.filter(reach))
    environments = filter_visible(actor, "core_environment_view", Environment.objects.filter(reach))
    return [
        *_list_missing(window.services, services),
        *_list_missing(window.environments, environments),
    ]


def _list_missing(names: Sequence[str], rows: QuerySet[Any]) -> list[str]:
    """Return the names that no row has as its identifier; no query without names."""
    if not names:
        return []
    known = set(rows.filter(identifier__in=names).values_list("identifier", flat=True))
    return [name for name in names if name not in known]


def can_view_freezes(actor: Principal, scope: Scope) -> bool:
    """Return whether the actor may see names and reasons of the windows that block runs of a scope."""
    return any(can(actor, permission, scope) for permission in _VIEWERS)


@dataclass(frozen=True)
class ActiveFreeze:
    """Longest blocking window, and whether this user could override all that block."""

    window: FreezeWindow
    period: FreezePeriod
    # Scopes of windows that this user cannot override.
    locked_scopes: tuple[str, ...]

    @property
    def may_override(self) -> bool:
        return not self.locked_scopes


def get_active_freeze(actor: User, pipeline: Pipeline, targets: Sequence[StageTarget]) -> ActiveFreeze | None:
    """Return the window that blocks runs of a pipeline now, or None; an unreadable pipeline has none.

    `targets` are those of a pipeline that can run; without any, those that exist are looked up.
    """
    try:
        places = targets or find_stage_targets(parse_pipeline(pipeline.yaml), pipeline.scope)[0]
    except InvalidPipelineError:
        return None
    return _find_active_freeze(actor, pipeline.scope, list_targets(places))


def get_retry_freeze(actor: User, execution: Execution) -> ActiveFreeze | None:
    """Return the window that blocks a retry of an execution now, or None."""
    return _find_active_freeze(actor, execution.scope, list_retry_targets(execution))


def _find_active_freeze(actor: User, scope: Scope, places: Iterable[FreezeTarget]) -> ActiveFreeze | None:
    active_windows = list_active_windows(scope, places)
    if not active_windows:
        return None
    window, period = active_windows[0]
    return ActiveFreeze(window, period, _list_locked_scopes(actor, active_windows))


def _list_locked_scopes(
    actor: User, active_windows: Iterable[tuple[FreezeWindow, FreezePeriod]]
) -> tuple[str, ...]:
    """Return the scopes of the windows that this user cannot override."""
    return tuple(
        sorted({window.scope.path for window, _ in active_windows if not can(actor, OVERRIDE, window)})
    )


def check_freeze_override(
    actor: User, scope: Scope, places: Iterable[FreezeTarget], *, override: bool
) -> list[FreezeWindow]:
    """Return the windows that this user overrides explicitly.

    Raises `RunFrozen` for a blocked run, `Forbidden` without permission to override.
    """
    active_windows = list_active_windows(scope, places)
    if active_windows and not override:
        raise _build_refusal(actor, active_windows)
    for window, _ in active_windows:
        if not can(actor, OVERRIDE, window):
            raise Forbidden(OVERRIDE)
    return [window for window, _ in active_windows]


def _build_refusal(actor: User, active_windows: Sequence[tuple[FreezeWindow, FreezePeriod]]) -> RunFrozen:
    """Return the refusal of a run, with the window that ends last and the way out for this user."""
    window, period = active_windows[0]
    scopes = " and ".join(_list_locked_scopes(actor, active_windows))
    advice = (
        f"ask someone with {OVERRIDE} in {scopes} to override the freeze" if scopes else "override the freeze"
    )
    reason = f": {window.description.rstrip().rstrip('.')}" if window.description.strip() else ""
    until = f"{period.ends:%Y-%m-%d %H:%M} UTC"
    return RunFrozen(f"Deployments are frozen until {until} by {window.name}{reason}. Wait, or {advice}.")


def record_override(actor: User, execution: Execution, windows: Iterable[FreezeWindow]) -> None:
    """Record the overridden windows, in the transaction that starts the run."""
    for window in windows:
        after = {"window": window.identifier, "scope": window.scope.path, "reason": window.description}
        record_audit_entry(actor=actor, action="freezewindow.override", thing=execution, after=after)


def _require_managing(actor: User, scope: Scope, window: FreezeWindow | None = None) -> None:
    require(actor, MANAGE, window or scope)
    if scope.kind == Scope.Kind.ACCOUNT and not can(actor, GLOBAL, scope):
        raise Forbidden(GLOBAL)


def _apply_spec(window: FreezeWindow, spec: FreezeSpec) -> None:
    errors = [*_time_errors(spec), *_name_errors(spec)]
    if errors:
        raise BadInput("The freeze window is not valid.", errors=errors)
    window.name, window.description = validate_name(spec.name), spec.reason
    window.time_zone, window.begins, window.ends = spec.time_zone, spec.begins[:16], spec.ends[:16]
    window.weekly, window.enabled = spec.weekly, spec.enabled
    window.services, window.environments = list(spec.services), list(spec.environments)
    window.environment_kind = spec.environment_kind


def _time_errors(spec: FreezeSpec) -> list[dict[str, str]]:
    errors = []
    try:
        ZoneInfo(spec.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = "Unknown time zone. Use a name such as Europe/Zurich, or UTC."
        errors.append({"path": "time_zone", "message": message})
    moments: dict[str, datetime] = {}
    for name, text in (("begins", spec.begins), ("ends", spec.ends)):
        try:
            moments[name] = parse_local_time(text[:16])
        except ValueError:
            errors.append({"path": name, "message": "Enter a date and time, such as 2026-12-24T18:00."})
        else:
            if moments[name].year not in _YEARS:
                errors.append({"path": name, "message": f"Use a year from {_YEARS[0]} to {_YEARS[-1]}."})
    if len(moments) == 2 and moments["ends"] <= moments["begins"]:
        errors.append({"path": "ends", "message": "The end must be after the start."})
    elif len(moments) == 2 and spec.weekly and moments["ends"] - moments["begins"] > WEEK:
        errors.append({"path": "ends", "message": "A weekly window can last at most one week."})
    return errors


def _name_errors(spec: FreezeSpec) -> list[dict[str, str]]:
    errors = []
    for path, names in (("services", spec.services), ("environments", spec.environments)):
        if len(names) > FREEZE_NAMES or any(not name or len(name) > NAME_CHARACTERS for name in names):
            errors.append({"path": path, "message": f"Enter at most {FREEZE_NAMES} identifiers."})
    if spec.environment_kind and spec.environment_kind not in Environment.Kind.values:
        kinds = ", ".join(Environment.Kind.values)
        errors.append(
            {"path": "environment_kind", "message": (f"Unknown environment type. Use one of {kinds}.")}
        )
    return errors


def _record(window: FreezeWindow) -> dict[str, Any]:
    names = ("name", "description", "time_zone", "begins", "ends", "weekly", "services", "environments")
    return {name: getattr(window, name) for name in (*names, "environment_kind", "enabled")}
