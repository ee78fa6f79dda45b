"""Pages of the overview and of deployment statistics."""

from collections.abc import Iterable
from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from catalog.models import Service
from deployments.execution.onboarding import list_onboarding_steps
from deployments.execution.queries import list_visible_executions
from inventory.dashboards.charts import HEIGHT, WIDTH, build_columns, build_line_path
from inventory.dashboards.deployment_statistics import (
    DEFAULT_RANGE,
    RANGES,
    RESULTS,
    DeploymentStatistics,
    compute_deployment_statistics,
)
from inventory.dashboards.environment_matrix import build_environment_matrix
from inventory.dashboards.overview import get_overview_tiles, list_scope_executions
from inventory.templatetags.figures import length_of_time, share
from rbac.policy import get_permissions_anywhere
from web.forms.pages import PageRequest, get_list_topics, list_visible, require_sign_in

MAX_OVERVIEW_SERVICES: Final = 10
MAX_RECENT_EXECUTIONS: Final = 8
RESULT_LABELS: Final = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "rolled_back": "Rolled back",
    "aborted": "Aborted",
}


@require_sign_in
@require_safe
def show_overview(request: PageRequest) -> HttpResponse:
    """Show what runs, waits and failed, with versions and recent activity; the statistics load afterwards."""
    days, scope = _parse_days(request), request.current_scope
    executions = list_scope_executions(request.user, scope)
    recent = list_visible_executions(request.user, scope)
    services = list_visible(request, "core_service_view", Service.objects.all()).order_by("-pk")
    context = {
        "now_here": get_overview_tiles(request.user, scope, executions, timezone.now(), days),
        "matrix": build_environment_matrix(request.user, list(services[:MAX_OVERVIEW_SERVICES])),
        "recent": recent.order_by("-created_at")[:MAX_RECENT_EXECUTIONS],
        "ranges": RANGES,
        "days": days,
        "may_run": "core_pipeline_execute" in get_permissions_anywhere(request.user),
        "way": list_onboarding_steps(scope, request.user) if scope and not executions.exists() else None,
        "topics": " ".join(
            (get_list_topics(request, "executions"), get_list_topics(request, "delegates", is_shared=True))
        ),
    }
    return render(request, "inventory/dashboards/overview.html", context)


@require_sign_in
@require_safe
@vary_on_headers("HX-Request")
def show_statistics(request: PageRequest) -> HttpResponse:
    """Show the deployment statistics of the chosen scope, as a part or a page."""
    days = _parse_days(request)
    statistics = compute_deployment_statistics(
        list_scope_executions(request.user, request.current_scope), timezone.now(), days
    )
    context = {
        "figures": statistics,
        "charts": build_charts(statistics),
        "words": [(kind, RESULT_LABELS[kind], statistics.all.counts[kind]) for kind in RESULTS],
        "rows": build_table_rows(statistics),
        "first_day": min(statistics.days),
        "last_day": max(statistics.days),
        "ranges": RANGES,
        "days": days,
    }
    is_part = request.headers.get("HX-Request")
    template = "inventory/dashboards/parts/_figures.html" if is_part else "inventory/dashboards/figures.html"
    return render(request, template, context)


def _parse_days(request: PageRequest) -> int:
    text = request.GET.get("days", "")
    return next((days for days in RANGES if text == str(days)), DEFAULT_RANGE)


def build_table_rows(statistics: DeploymentStatistics) -> list[tuple[str, list[str]]]:
    """Build the table below the charts, the newest day first; formatting here is faster than in the
    template.
    """
    return [
        (
            day.isoformat(),
            [
                *map(str, numbers.counts.values()),
                share(numbers.failure_rate),
                length_of_time(numbers.deployment_duration),
                length_of_time(numbers.restore_time),
            ],
        )
        for day, numbers in reversed(statistics.days.items())
    ]


def build_charts(statistics: DeploymentStatistics) -> dict[str, object]:
    """Build the shapes of the four charts."""
    numbers = list(statistics.days.values())
    titled = {
        f"{day:%-d %B}: {_format_counts(item.counts)}": item.counts for day, item in statistics.days.items()
    }
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "columns": build_columns(titled),
        "most": max((item.total for item in numbers), default=0),
        "lead": build_line_path([item.deployment_duration for item in numbers]),
        "failure": build_line_path([item.failure_rate for item in numbers], maximum=1),
        "restore": build_line_path([item.restore_time for item in numbers]),
        "tops": {
            "lead": _get_maximum(item.deployment_duration for item in numbers),
            "restore": _get_maximum(item.restore_time for item in numbers),
        },
    }


def _get_maximum(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _format_counts(counts: dict[str, int]) -> str:
    parts = [f"{number} {RESULT_LABELS[kind].lower()}" for kind, number in counts.items() if number]
    return ", ".join(parts) or "none"
