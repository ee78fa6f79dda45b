"""The page on which a person accepts the new key of an SSH server."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from connectors.host_keys import known_server
from connectors.models import Connector
from connectors.operations import accept_host_key
from rbac.policy import require
from web.pages import PageRequest, get_visible, page
from web.problems import Problem


@page
@require_http_methods(["GET", "HEAD", "POST"])
def host_key(request: PageRequest, pk: int) -> HttpResponse:
    """This will show the known key and the offered one, and accept the latter."""
    found = get_visible(request, "core_connector_view", Connector.objects.select_related("scope"), pk=pk)
    require(request.user, "core_connector_edit", found)
    refusal = ""
    if request.method == "POST":
        try:
            accept_host_key(
                actor=request.user, connector=found, fingerprint=request.POST.get("fingerprint", "")
            )
        except Problem as problem:
            refusal = problem.detail
        else:
            messages.success(request, f"The server of {found.name} is known by its new key.")
            return redirect("connector", pk=pk)
    content = {"connector": found, "server": known_server(found), "refusal": refusal}
    return render(request, "connectors/host_key.html", content, status=409 if refusal else 200)
