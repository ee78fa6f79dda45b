"""The overview: what goes on in the chosen scope, and how deployments went."""

from collections.abc import Iterable
from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from deployments.onboarding import way_to_first_run
from overview.charts import HEIGHT, WIDTH, columns, line
from overview.figures import ENDINGS, RANGES, USUAL_RANGE, Figures, figures
from overview.under_way import executions_here, under_way
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
    """This will show what deploys, what failed, what waits for a person, and the figures of some days."""
    days, now = _days(request.GET.get("days", "")), timezone.now()
    scope = request.current_scope
    executions = executions_here(request.user, scope)
    now_here = under_way(request.user, scope, executions, now, days)
    found = figures(executions, now, days)
    is_new = not (found.all.total or now_here.deploying_count or now_here.waiting_count)
    context = {
        "now_here": now_here,
        "figures": found,
        "charts": charts(found),
        "words": [(kind, WORDS[kind], found.all.counts[kind]) for kind in ENDINGS],
        "days_newest_first": list(found.days.items())[::-1],
        "first_day": min(found.days),
        "last_day": max(found.days),
        "ranges": RANGES,
        "days": days,
        "way": way_to_first_run(scope, request.user) if scope and is_new else None,
        "topics": f"{topics_here(request, 'executions')} {topics_here(request, 'delegates', is_shared=True)}",
    }
    return render(request, "overview/overview.html", context)


def _days(asked: str) -> int:
    return next((days for days in RANGES if asked == str(days)), USUAL_RANGE)


def charts(found: Figures) -> dict[str, object]:
    """The shapes of the four charts."""
    numbers = list(found.days.values())
    titled = {f"{day:%-d %B}: {_spelled(one.counts)}": one.counts for day, one in found.days.items()}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "columns": columns(titled),
        "most": max((one.total for one in numbers), default=0),
        "lead": line([one.lead_time for one in numbers]),
        "failure": line([one.failure_rate for one in numbers], most=1),
        "restore": line([one.restore_time for one in numbers]),
        "tops": {
            "lead": _largest(one.lead_time for one in numbers),
            "restore": _largest(one.restore_time for one in numbers),
        },
    }


def _largest(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)


def _spelled(counts: dict[str, int]) -> str:
    said = [f"{number} {WORDS[kind].lower()}" for kind, number in counts.items() if number]
    return ", ".join(said) or "none"
