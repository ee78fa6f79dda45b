"""The overview: what goes on in the chosen scope, and how deployments went."""

from collections.abc import Iterable
from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from deployments.onboarding import way_to_first_run
from inventory.dashboards.charts import HEIGHT, WIDTH, columns, line
from inventory.dashboards.figures import ENDINGS, RANGES, USUAL_RANGE, Figures, figures
from inventory.dashboards.under_way import executions_here, under_way
from inventory.templatetags.figures import length_of_time, share
from web.lists import topics_here
from web.pages import PageRequest, page

WORDS: Final = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "rolled_back": "Rolled back",
    "aborted": "Aborted",
}


@page
@require_safe
def overview(request: PageRequest) -> HttpResponse:
    """This will show what deploys, what failed and what waits for a person; its figures come after it."""
    days, scope = _days(request), request.current_scope
    executions = executions_here(request.user, scope)
    context = {
        "now_here": under_way(request.user, scope, executions, timezone.now(), days),
        "ranges": RANGES,
        "days": days,
        "way": way_to_first_run(scope, request.user) if scope and not executions.exists() else None,
        "topics": f"{topics_here(request, 'executions')} {topics_here(request, 'delegates', is_shared=True)}",
    }
    return render(request, "inventory/dashboards/overview.html", context)


@page
@require_safe
@vary_on_headers("HX-Request")
def figures_of_days(request: PageRequest) -> HttpResponse:
    """How deployments of the chosen scope went: a part of the overview, or a page of its own."""
    days = _days(request)
    found = figures(executions_here(request.user, request.current_scope), timezone.now(), days)
    context = {
        "figures": found,
        "charts": charts(found),
        "words": [(kind, WORDS[kind], found.all.counts[kind]) for kind in ENDINGS],
        "rows": rows(found),
        "first_day": min(found.days),
        "last_day": max(found.days),
        "ranges": RANGES,
        "days": days,
    }
    is_part = request.headers.get("HX-Request")
    template = "inventory/dashboards/parts/_figures.html" if is_part else "inventory/dashboards/figures.html"
    return render(request, template, context)


def _days(request: PageRequest) -> int:
    asked = request.GET.get("days", "")
    return next((days for days in RANGES if asked == str(days)), USUAL_RANGE)


def rows(found: Figures) -> list[tuple[str, list[str]]]:
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


def charts(found: Figures) -> dict[str, object]:
    """The shapes of the four charts."""
    numbers = list(found.days.values())
    titled = {f"{day:%-d %B}: {_spelled(one.counts)}": one.counts for day, one in found.days.items()}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "columns": columns(titled),
        "most": max((one.total for one in numbers), default=0),
        "lead": line([one.deployment_duration for one in numbers]),
        "failure": line([one.failure_rate for one in numbers], most=1),
        "restore": line([one.restore_time for one in numbers]),
        "tops": {
            "lead": _largest(one.deployment_duration for one in numbers),
            "restore": _largest(one.restore_time for one in numbers),
        },
    }


def _largest(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)


def _spelled(counts: dict[str, int]) -> str:
    said = [f"{number} {WORDS[kind].lower()}" for kind, number in counts.items() if number]
    return ", ".join(said) or "none"
