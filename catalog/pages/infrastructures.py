"""Pages of the infrastructures in an environment, and the clusters that a connector sees."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from aws.regions import regions
from catalog import operations
from catalog.forms.environments import DYNAMIC, STATIC, InfrastructureForm, NewInfrastructureForm
from catalog.forms.resources import DeleteForm
from catalog.models import Environment, Infrastructure
from catalog.pages.changes import compared
from catalog.pages.environments import EDIT, GET_OR_POST, VIEW, environment_of, services_near
from catalog.usage import used_by
from connectors.aws_accounts import read_spec
from connectors.models import Connector
from connectors.queries import connectors_for
from delegates.doors import Cluster, list_clusters
from delegates.inquiries import clusters_by_delegate
from delegates.models import Inquiry
from rbac.policy import require, visible_to
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.problems import ChangedMeanwhile, Problem

ACCESS: Final = "core_connector_access"
_PLACE: Final = ("region", "cluster")


@page
@require_http_methods(GET_OR_POST)
def new_infrastructure(request: PageRequest, pk: int) -> HttpResponse:
    """This will add a place to an environment."""
    environment = environment_of(request, pk)
    require(request.user, EDIT, environment)
    connectors = _connectors(request, environment)
    form = NewInfrastructureForm(posted(request), connectors=connectors, initial=_first(connectors))
    if request.method == "POST" and form.is_valid():
        try:
            made = operations.create_infrastructure(
                actor=request.user,
                environment=environment,
                identifier=form.cleaned_data["identifier"],
                spec=form.spec(),
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, _is_there(made))
            return redirect("environment", pk=pk)
    return _form_page(request, form, environment)


def _is_there(made: Infrastructure) -> str:
    if made.is_dynamic:
        return f"{made.name} is there. The provisioner of each stage that deploys to it makes its cluster."
    return f"{made.name} is there: cluster {made.cluster} in {made.region}."


@page
@require_http_methods(GET_OR_POST)
def edit_infrastructure(request: PageRequest, pk: int, infrastructure: int) -> HttpResponse:
    """This will save a place; what somebody else saved meanwhile is shown, not lost."""
    found = _found(request, pk, infrastructure)
    require(request.user, EDIT, found)
    connectors = _connectors(request, found.environment, found.connector)
    if request.method != "POST":
        form = InfrastructureForm(connectors=connectors, initial=_values(found))
        return _form_page(request, form, found.environment, found)
    form = InfrastructureForm(request.POST, connectors=connectors)
    if not form.is_valid():
        return _form_page(request, form, found.environment, found)
    try:
        saved = operations.update_infrastructure(
            actor=request.user,
            infrastructure=found,
            spec=form.spec(),
            version=form.cleaned_data["version"] or 0,
        )
    except ChangedMeanwhile:
        stored = _found(request, pk, infrastructure)
        return _changed_meanwhile(request, form, connectors, stored)
    except Problem as problem:
        form.refuse(problem)
        return _form_page(request, form, found.environment, found)
    messages.success(request, f"{saved.name} is saved.")
    return redirect("environment", pk=pk)


@page
@require_http_methods(GET_OR_POST)
def delete_infrastructure(request: PageRequest, pk: int, infrastructure: int) -> HttpResponse:
    """This will ask before a place goes, and name who deploys to it."""
    found = _found(request, pk, infrastructure)
    require(request.user, EDIT, found)
    users = used_by(found, request.user)
    form = DeleteForm(posted(request))
    if request.method == "POST" and form.is_agreed(is_used=bool(users)):
        operations.delete_infrastructure(actor=request.user, infrastructure=found, although_used=True)
        messages.success(request, f"{found.name} is deleted. What is deployed there keeps running.")
        return redirect("environment", pk=pk)
    content = {"place": found, "environment": found.environment, "form": form, "used_by": users}
    return render(request, "catalog/environments/delete_place.html", content, status=form.http_status)


@page
@require_safe
def clusters(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask AWS which clusters a connector sees in a region; the form swaps the answer in."""
    environment = environment_of(request, pk)
    require(request.user, EDIT, environment)
    return show_clusters(request, _connectors(request, environment))


@dataclass(frozen=True)
class ClusterBox:
    """What the form calls the part that lists clusters, and its fields: their names begin with `prefix`."""

    id: str = "clusters"
    control: str = "id_cluster"
    prefix: str = ""


def show_clusters(
    request: PageRequest, connectors: Iterable[Connector], box: ClusterBox = ClusterBox()
) -> HttpResponse:
    """The field of a cluster, with those that the chosen one of `connectors` sees in the chosen region."""
    given = {name: request.GET.get(f"{box.prefix}{name}", "") for name in ("connector", "region", "cluster")}
    content: dict[str, Any] = {"chosen": given["cluster"], "region": given["region"], "box": box}
    try:
        content["connector"] = connector = _named(given["connector"], connectors)
        _refuse_region(content["region"])
        found = _clusters(request, connector, content["region"])
        if isinstance(found, Inquiry):
            # The same question asked again finds the answer, or waits on.
            content["waits"], content["again"] = found, request.get_full_path()
        else:
            content["names"] = [one.name for one in found]
    except Problem as problem:
        content["refusal"] = problem.detail
        content["next_step"] = reverse("connectors")
    return render(request, "catalog/environments/_clusters.html", content)


def _clusters(request: PageRequest, connector: Connector, region: str) -> list[Cluster] | Inquiry:
    if read_spec(connector.spec).is_remote:
        return clusters_by_delegate(actor=request.user, connector=connector, region=region)
    return list_clusters(actor=request.user, connector=connector, region=region)


def _named(asked: str, connectors: Iterable[Connector]) -> Connector:
    for one in connectors:
        if str(one.pk) == asked:
            return one
    raise Problem("Choose a connector first. Its credentials list the clusters.")


def _refuse_region(region: str) -> None:
    """The region becomes part of the address that is called, so only known ones will do."""
    if not any(region == one.name for one in regions()):
        raise Problem("Choose a region first.")


def _connectors(
    request: PageRequest, environment: Environment, present: Connector | None = None
) -> list[Connector]:
    """The connectors that the person may put to use here, and the one that is in use already."""
    usable = list(visible_to(request.user, ACCESS, connectors_for(environment.scope)))
    return usable if present is None or present in usable else [present, *usable]


def _first(connectors: Sequence[Connector]) -> dict[str, Any]:
    """What a new place begins with: the first connector, and the region that it is tested in."""
    if not connectors:
        return {}
    return {"connector": connectors[0].pk, "region": read_spec(connectors[0].spec).test_region}


def _found(request: PageRequest, pk: int, infrastructure: int) -> Infrastructure:
    rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
    return get_visible(request, VIEW, rows, pk=infrastructure, environment_id=pk)


def _values(found: Infrastructure) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in ("name", "version")}
    place = {f"mapped_{name}" if found.is_dynamic else name: getattr(found, name) for name in _PLACE}
    method = DYNAMIC if found.is_dynamic else STATIC
    return {**values, **place, "method": method, "connector": found.connector_id}


def _changed_meanwhile(
    request: PageRequest, form: InfrastructureForm, connectors: Sequence[Connector], stored: Infrastructure
) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    given, mine = form.cleaned_data, form.spec()
    names = ("name", *_PLACE, "is_dynamic")
    differs = compared(
        {name: getattr(stored, name) for name in names} | {"connector": str(stored.connector)},
        {name: getattr(mine, name) for name in names} | {"connector": str(given["connector"])},
    )
    entered = given | {"connector": given["connector"].pk, "version": stored.version}
    again = InfrastructureForm(connectors=connectors, initial=entered)
    return _form_page(request, again, stored.environment, stored, diff=differs, status=409)


def _form_page(
    request: PageRequest,
    form: InfrastructureForm,
    environment: Environment,
    place: Infrastructure | None = None,
    **more: Any,
) -> HttpResponse:
    services = services_near(request, environment) if place else []
    content = {"form": form, "environment": environment, "place": place, "services": services}
    status = more.pop("status", form.http_status)
    return render(request, "catalog/environments/place.html", content | more, status=status)
