"""Pages of drift: list, and one ECS service field by field."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from catalog.models import Service
from deployments.models import Execution
from guards.text import parse_key
from inventory.models.drift import Drift, DriftComparison
from inventory.operations import drift as operations_drift
from inventory.queries import drift as queries_drift
from inventory.queries.freshness import DriftFreshness
from pipelines.models import Pipeline
from rbac.policy import can
from web.forms.pages import PageRequest, get_permitted_ids, get_visible, list_visible, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import BadInput

VIEW_SERVICE: Final = "core_service_view"
VIEW_PIPELINE: Final = "core_pipeline_view"
RUN_PIPELINE: Final = "core_pipeline_execute"
ComparisonStates: Final = DriftComparison.State
ALL_STATES: Final = "all"
STATE_CHOICES: Final = (
    (ComparisonStates.DRIFTED, "Drifted"),
    (ComparisonStates.ACCEPTED, "Accepted"),
    (ComparisonStates.IN_STEP, "In sync"),
    (ComparisonStates.NOT_COMPARED, "Not compared"),
    (ALL_STATES, "All"),
)


@dataclass(frozen=True)
class DriftTableRow:
    """A field that differs, with its values as text."""

    drift: Drift
    desired: str
    actual: str


@require_sign_in
@require_safe
def list_drift(request: PageRequest) -> HttpResponse:
    """List the ECS services of the chosen scope with drift."""
    state = request.GET.get("show", "")
    state = state if state in dict(STATE_CHOICES) else ComparisonStates.DRIFTED
    visible = list_visible(
        request, queries_drift.VIEW_ENVIRONMENT, DriftComparison.objects.filter(ecs_service__gone_at=None)
    )
    counts = {**queries_drift.count_by_state(visible)}
    counts[ALL_STATES] = sum(counts.values())
    rows = visible if state == ALL_STATES else visible.filter(state=state)
    page = paginate_queryset(queries_drift.select_comparison_relations(rows), request)
    executions = [comparison.execution for comparison in page.items if comparison.execution]
    context = {
        "page": page,
        "viewable_executions": get_permitted_ids(request, VIEW_PIPELINE, Execution, executions),
        "choices": [(name, title, counts.get(name, 0)) for name, title in STATE_CHOICES],
        "chosen": state,
    }
    return render(request, "inventory/drift/list.html", context)


@require_sign_in
@require_safe
def show_comparison(request: PageRequest, pk: int) -> HttpResponse:
    """Show an ECS service compared with its last deployment."""
    return render(
        request, "inventory/drift/detail.html", _build_detail_context(request, _get_comparison(request, pk))
    )


@require_sign_in
@require_POST
def request_scan(request: PageRequest, pk: int) -> HttpResponse:
    """Request a drift scan of the cluster."""
    operations_drift.request_drift_scan(actor=request.user, comparison=_get_comparison(request, pk))
    messages.success(request, "Drift check started. Reload the page in a few seconds.")
    return redirect("drift-of-service", pk=pk)


@require_sign_in
@require_POST
def decide_drift(request: PageRequest, pk: int) -> HttpResponse:
    """Accept the chosen fields, or revoke their acceptance."""
    comparison, reason = _get_comparison(request, pk), request.POST.get("reason", "")
    keys = [*filter(None, map(parse_key, request.POST.getlist("drift")))]
    try:
        if request.POST.get("verdict") == "withdraw":
            operations_drift.revoke_acceptance(actor=request.user, comparison=comparison, keys=keys)
        else:
            operations_drift.accept_drift(actor=request.user, comparison=comparison, keys=keys, reason=reason)
    except BadInput as problem:
        context = {"refusal": problem.detail, "reason": reason, "marked": keys}
        return render(
            request,
            "inventory/drift/detail.html",
            {**_build_detail_context(request, comparison), **context},
            status=problem.status,
        )
    return redirect("drift-of-service", pk=pk)


def _build_detail_context(request: PageRequest, comparison: DriftComparison) -> dict[str, Any]:
    fields, freshness = queries_drift.list_open_drifts(comparison), DriftFreshness.of(comparison)
    service, execution = comparison.ecs_service.service, comparison.execution
    return {
        "comparison": comparison,
        "rows": build_drift_rows(fields),
        "attributions": sorted(
            {drift.attribution for drift in fields if drift.attribution and drift.accepted_at is None}
        ),
        "earlier": build_drift_rows(queries_drift.list_resolved_drifts(comparison)),
        "fresh": freshness,
        "may_see_connector": can(request.user, "core_connector_view", freshness.cluster.connector),
        "may_see_service": bool(service and get_permitted_ids(request, VIEW_SERVICE, Service, [service])),
        "may_see_execution": bool(
            execution and get_permitted_ids(request, VIEW_PIPELINE, Execution, [execution])
        ),
        "may_run": bool(
            execution and get_permitted_ids(request, RUN_PIPELINE, Pipeline, [execution.pipeline])
        ),
        "may_accept": can(request.user, queries_drift.EDIT_ENVIRONMENT, comparison),
        "can_scan": can(request.user, queries_drift.ACCESS_ENVIRONMENT, comparison),
    }


def build_drift_rows(drifts: Sequence[Drift]) -> list[DriftTableRow]:
    """Build table rows with readable values."""
    return [DriftTableRow(drift, format_value(drift.desired), format_value(drift.actual)) for drift in drifts]


def format_value(value: Any) -> str:
    """Format a value as indented JSON; a text stays as it is."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _get_comparison(request: PageRequest, pk: int) -> DriftComparison:
    return get_visible(
        request,
        queries_drift.VIEW_ENVIRONMENT,
        queries_drift.select_comparison_relations(DriftComparison.objects.all()),
        pk=pk,
    )
