"""Page of the effective manifests of a service, with the source of each line."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.manifests.stores import get_store_title
from catalog.models import Manifest
from catalog.overrides.effective_manifests import EffectiveManifest, list_effective_manifests
from catalog.overrides.remote_files import fetch_rows
from catalog.overrides.yaml_lines import render_lines
from catalog.pages.environments import EDIT
from catalog.pages.overrides import build_override_url, get_override_set, list_override_links
from guards.limits import MERGED_MANIFEST_LINES
from rbac.policy import can
from web.forms.pages import PageRequest, require_sign_in


@require_sign_in
@require_safe
def show_manifests(
    request: PageRequest, pk: int, service: int, infrastructure: int | None = None
) -> HttpResponse:
    """Show the effective manifests of a deployment to an infrastructure, line by line."""
    override_set = get_override_set(request, pk, service, infrastructure)
    is_fetched = request.GET.get("fetch") == "1"
    manifests = list_effective_manifests(override_set, request.user, fetch=fetch_rows if is_fetched else None)
    content = {
        "override_set": override_set,
        "environment": override_set.environment,
        "service": override_set.service,
        "places": list_override_links(override_set, "manifests"),
        "overrides": build_override_url(
            override_set, name="service", infrastructure=override_set.infrastructure
        ),
        "manifests": [_build_manifest_context(manifest) for manifest in manifests],
        "is_fetched": is_fetched,
        "topics": " ".join(
            dict.fromkeys(row["topics"] for manifest in manifests for row in manifest.rows if "topics" in row)
        ),
        "may_edit": can(request.user, EDIT, override_set.environment),
    }
    return render(request, "catalog/environments/manifests.html", content)


def _build_manifest_context(manifest: EffectiveManifest) -> dict[str, object]:
    lines = render_lines(manifest.merged) if manifest.merged else []
    return {
        "title": Manifest.Kind(manifest.kind).label,
        "lines": lines[:MERGED_MANIFEST_LINES],
        "left_out": max(0, len(lines) - MERGED_MANIFEST_LINES),
        "rows": [row | {"title": get_store_title(row["store"])} for row in manifest.rows],
        "arn": manifest.arn,
        "trouble": manifest.error,
        "elsewhere": manifest.unfetched_location,
        "waits": manifest.lookup_status,
        "problems": manifest.problems,
        "warnings": manifest.warnings,
    }
