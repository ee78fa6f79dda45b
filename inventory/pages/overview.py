"""Pages of the overview and of deployment statistics."""

from collections.abc import Iterable
from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from deployments.execution.onboarding import list_onboarding_steps
from inventory.dashboards.charts import HEIGHT, WIDTH, build_columns, build_line_path
from inventory.dashboards.deployment_statistics import (
    DEFAULT_RANGE,
    RANGES,
    RESULTS,
    DeploymentStatistics,
    compute_deployment_statistics,
)
from inventory.dashboards.overview import get_overview_tiles, list_scope_executions
from inventory.templatetags.figures import length_of_time, share
from web.forms.pages import PageRequest, get_list_topics, require_sign_in

RESULT_LABELS: Final = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "rolled_back": "Rolled back",
    "aborted": "Aborted",
}


@require_sign_in
@require_safe
def show_overview(request: PageRequest) -> HttpResponse:
    """Show what deploys, what failed and what waits for a person; its figures come after it."""
    days, scope = _parse_days(request), request.current_scope
    executions = list_scope_executions(request.user, scope)
    context = {
        "now_here": get_overview_tiles(request.user, scope, executions, timezone.now(), days),
        "ranges": RANGES,
        "days": days,
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
    """How deployments of the chosen scope went: a part of the overview, or a page of its own."""
    days = _parse_days(request)
    found = compute_deployment_statistics(
        list_scope_executions(request.user, request.current_scope), timezone.now(), days
    )
    context = {
        "figures": found,
        "charts": build_charts(found),
        "words": [(kind, RESULT_LABELS[kind], found.all.counts[kind]) for kind in RESULTS],
        "rows": build_table_rows(found),
        "first_day": min(found.days),
        "last_day": max(found.days),
        "ranges": RANGES,
        "days": days,
    }
    is_part = request.headers.get("HX-Request")
    template = "inventory/dashboards/parts/_figures.html" if is_part else "inventory/dashboards/figures.html"
    return render(request, template, context)


def _parse_days(request: PageRequest) -> int:
    asked = request.GET.get("days", "")
    return next((days for days in RANGES if asked == str(days)), DEFAULT_RANGE)


def build_table_rows(found: DeploymentStatistics) -> list[tuple[str, list[str]]]:
    """The table below the charts, the newest day first, its cells in words: a template is slow with each."""
    return [
        (
            day.isoformat(),
            [
                *map(str, one.counts.values()),
                share(one.failure_rate),
                length_of_time(one.deployment_duration),
                length_of_time(one.restore_time),
            ],
        )
        for day, one in reversed(found.days.items())
    ]


def build_charts(found: DeploymentStatistics) -> dict[str, object]:
    """The shapes of the four charts."""
    numbers = list(found.days.values())
    titled = {f"{day:%-d %B}: {_format_counts(one.counts)}": one.counts for day, one in found.days.items()}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "columns": build_columns(titled),
        "most": max((one.total for one in numbers), default=0),
        "lead": build_line_path([one.deployment_duration for one in numbers]),
        "failure": build_line_path([one.failure_rate for one in numbers], most=1),
        "restore": build_line_path([one.restore_time for one in numbers]),
        "tops": {
            "lead": _get_maximum(one.deployment_duration for one in numbers),
            "restore": _get_maximum(one.restore_time for one in numbers),
        },
    }


def _get_maximum(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)


def _format_counts(counts: dict[str, int]) -> str:
    said = [f"{number} {RESULT_LABELS[kind].lower()}" for kind, number in counts.items() if number]
    return ", ".join(said) or "none"
