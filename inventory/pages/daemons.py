"""Page of the daemons of managed instances in the cluster of an infrastructure."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.models import Infrastructure
from inventory.queries.daemons import find_denied_reads, list_daemons
from inventory.queries.instances import VIEW_ENVIRONMENT, get_cluster
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.http.pagination import paginate_queryset


@require_sign_in
@require_safe
def list_daemons_page(request: PageRequest, pk: int) -> HttpResponse:
    """List the daemons of a cluster, with their instances, images and last deployment."""
    rows = Infrastructure.objects.select_related("environment__scope")
    infrastructure = get_visible(request, VIEW_ENVIRONMENT, rows, pk=pk)
    cluster = get_cluster(infrastructure)
    context = {
        "place": infrastructure,
        "cluster": cluster,
        "page": paginate_queryset(list_daemons(cluster), request),
        "denied_reads": find_denied_reads(cluster),
    }
    return render(request, "inventory/daemons.html", context)
