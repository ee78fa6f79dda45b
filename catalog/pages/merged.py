"""The page of the manifests that count for a service in a place, with where each value came from."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.effective.fetching import fetched_rows
from catalog.effective.lines import lines_of
from catalog.effective.manifests import CountingManifest, counting_manifests
from catalog.manifests.stores import title_of
from catalog.models import Manifest
from catalog.pages.environments import EDIT
from catalog.pages.overrides import address_of, places_of, there_of
from guards.limits import MERGED_LINES
from rbac.policy import can
from web.pages import PageRequest, page


@page
@require_safe
def manifests(request: PageRequest, pk: int, service: int, infrastructure: int | None = None) -> HttpResponse:
    """This will show each manifest that a deployment to a place would take, line by line."""
    there = there_of(request, pk, service, infrastructure)
    is_fetched = request.GET.get("fetch") == "1"
    shown = counting_manifests(there, request.user, fetch=fetched_rows if is_fetched else None)
    content = {
        "there": there,
        "environment": there.environment,
        "service": there.service,
        "places": places_of(there, "manifests"),
        "overrides": address_of(there, name="service", infrastructure=there.infrastructure),
        "manifests": [_shown(one) for one in shown],
        "is_fetched": is_fetched,
        "topics": " ".join(
            dict.fromkeys(row["topics"] for one in shown for row in one.rows if "topics" in row)
        ),
        "may_edit": can(request.user, EDIT, there.environment),
    }
    return render(request, "catalog/environments/manifests.html", content)


def _shown(one: CountingManifest) -> dict[str, object]:
    lines = lines_of(one.merged) if one.merged else []
    return {
        "title": Manifest.Kind(one.kind).label,
        "lines": lines[:MERGED_LINES],
        "left_out": max(0, len(lines) - MERGED_LINES),
        "rows": [row | {"title": title_of(row["store"])} for row in one.rows],
        "arn": one.arn,
        "trouble": one.trouble,
        "elsewhere": one.elsewhere,
        "waits": one.waits,
        "problems": one.problems,
        "warnings": one.warnings,
    }
