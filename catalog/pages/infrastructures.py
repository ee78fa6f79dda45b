"""Pages of infrastructures: forms, and the clusters that a connector can list."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from aws.regions import list_regions
from catalog import operations
from catalog.forms.environments import DYNAMIC, STATIC, InfrastructureForm, NewInfrastructureForm
from catalog.models import Environment, Infrastructure
from catalog.pages.delete_pages import DeleteUsedPage
from catalog.pages.edit_conflicts import diff_values
from catalog.pages.environments import EDIT, GET_OR_POST, VIEW, get_environment, list_deployable_services
from connectors.models import Connector
from connectors.queries import list_connectors
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import EcsCluster, list_clusters
from delegates.access.lookup_requests import list_clusters_by_delegate
from delegates.models import LookupRequest
from rbac.policy import filter_visible, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import Breadcrumb, ResourcePage
from web.http.problems import Problem, VersionConflict

ACCESS: Final = "core_connector_access"
_LOCATION_FIELDS: Final = ("region", "cluster")


def _get_infrastructure(request: PageRequest, pk: int, infrastructure: int) -> Infrastructure:
    rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
    return get_visible(request, VIEW, rows, pk=infrastructure, environment_id=pk)


@require_sign_in
@require_http_methods(GET_OR_POST)
def new_infrastructure(request: PageRequest, pk: int) -> HttpResponse:
    """Add a place to an environment."""
    environment = get_environment(request, pk)
    require(request.user, EDIT, environment)
    connectors = _list_connectors(request, environment)
    form = NewInfrastructureForm(
        get_posted_data(request), connectors=connectors, initial=_build_default_values(connectors)
    )
    if request.method == "POST" and form.is_valid():
        try:
            made = operations.create_infrastructure(
                actor=request.user,
                environment=environment,
                identifier=form.cleaned_data["identifier"],
                spec=form.build_spec(),
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, _describe_created(made))
            return redirect("environment", pk=pk)
    return _render_form(request, form, environment)


def _describe_created(made: Infrastructure) -> str:
    if made.is_dynamic:
        return f"{made.name} is created. The provisioner of each stage creates its cluster."
    return f"{made.name} is created: cluster {made.cluster} in {made.region}."


@require_sign_in
@require_http_methods(GET_OR_POST)
def edit_infrastructure(request: PageRequest, pk: int, infrastructure: int) -> HttpResponse:
    """Save a place; what somebody else saved meanwhile is shown, not lost."""
    found = _get_infrastructure(request, pk, infrastructure)
    require(request.user, EDIT, found)
    connectors = _list_connectors(request, found.environment, found.connector)
    if request.method != "POST":
        form = InfrastructureForm(connectors=connectors, initial=_build_initial_values(found))
        return _render_form(request, form, found.environment, found)
    form = InfrastructureForm(request.POST, connectors=connectors)
    if not form.is_valid():
        return _render_form(request, form, found.environment, found)
    try:
        saved = operations.update_infrastructure(
            actor=request.user,
            infrastructure=found,
            spec=form.build_spec(),
            version=form.cleaned_data["version"] or 0,
        )
    except VersionConflict:
        stored = _get_infrastructure(request, pk, infrastructure)
        return _render_conflict(request, form, connectors, stored)
    except Problem as problem:
        form.add_problem(problem)
        return _render_form(request, form, found.environment, found)
    messages.success(request, f"{saved.name} is saved.")
    return redirect("environment", pk=pk)


class InfrastructurePage(ResourcePage[Infrastructure]):
    """A page about an infrastructure, which belongs to an environment."""

    load = staticmethod(_get_infrastructure)
    noun = "infrastructure"

    def get_parents(self) -> list[Breadcrumb]:
        environment = self.object.environment
        return [
            Breadcrumb("Environments", reverse("environments")),
            Breadcrumb(environment.name, reverse("environment", args=[environment.pk])),
        ]


class DeleteInfrastructure(InfrastructurePage, DeleteUsedPage[Infrastructure]):
    """Delete an infrastructure, after naming the pipelines that deploy to it."""

    permission = EDIT
    text = (
        "The infrastructure is deleted with its overrides. What is deployed in its cluster keeps running in "
        "AWS."
    )
    done = "{name} is deleted. What is deployed there keeps running."

    def perform(self, **given: Any) -> None:
        operations.delete_infrastructure(actor=self.request.user, infrastructure=self.object, **given)


@require_sign_in
@require_safe
def choose_cluster(request: PageRequest, pk: int) -> HttpResponse:
    """Ask AWS which clusters a connector sees in a region; the form swaps the answer in."""
    environment = get_environment(request, pk)
    require(request.user, EDIT, environment)
    return render_cluster_field(request, _list_connectors(request, environment))


@dataclass(frozen=True)
class ClusterFieldNames:
    """What the form calls the part that lists clusters, and its fields: their names begin with `prefix`."""

    id: str = "clusters"
    control: str = "id_cluster"
    prefix: str = ""


def render_cluster_field(
    request: PageRequest, connectors: Iterable[Connector], box: ClusterFieldNames = ClusterFieldNames()
) -> HttpResponse:
    """Return the field of a cluster, with those that the chosen one of `connectors` sees in the chosen
    region.
    """
    given = {name: request.GET.get(f"{box.prefix}{name}", "") for name in ("connector", "region", "cluster")}
    content: dict[str, Any] = {"chosen": given["cluster"], "region": given["region"], "box": box}
    try:
        content["connector"] = connector = _get_connector(given["connector"], connectors)
        _validate_region(content["region"])
        found = _list_clusters(request, connector, content["region"])
        if isinstance(found, LookupRequest):
            # The same question asked again finds the answer, or waits on.
            content["waits"], content["again"] = found, request.get_full_path()
        else:
            content["names"] = [one.name for one in found]
    except Problem as problem:
        content["refusal"] = problem.detail
        content["next_step"] = reverse("connectors")
    return render(request, "catalog/environments/_clusters.html", content)


def _list_clusters(
    request: PageRequest, connector: Connector, region: str
) -> list[EcsCluster] | LookupRequest:
    if parse_aws_spec(connector.spec).is_remote:
        return list_clusters_by_delegate(actor=request.user, connector=connector, region=region)
    return list_clusters(actor=request.user, connector=connector, region=region)


def _get_connector(asked: str, connectors: Iterable[Connector]) -> Connector:
    for one in connectors:
        if str(one.pk) == asked:
            return one
    raise Problem("Choose a connector first. Its credentials list the clusters.")


def _validate_region(region: str) -> None:
    """The region becomes part of the address that is called, so only known ones will do."""
    if not any(region == one.name for one in list_regions()):
        raise Problem("Choose a region first.")


def _list_connectors(
    request: PageRequest, environment: Environment, present: Connector | None = None
) -> list[Connector]:
    """Return the connectors that the person may put to use here, and the one that is in use already."""
    usable = list(filter_visible(request.user, ACCESS, list_connectors(environment.scope)))
    return usable if present is None or present in usable else [present, *usable]


def _build_default_values(connectors: Sequence[Connector]) -> dict[str, Any]:
    """What a new place begins with: the first connector, and the region that it is tested in."""
    if not connectors:
        return {}
    return {"connector": connectors[0].pk, "region": parse_aws_spec(connectors[0].spec).test_region}


def _build_initial_values(found: Infrastructure) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in ("name", "version")}
    place = {
        f"mapped_{name}" if found.is_dynamic else name: getattr(found, name) for name in _LOCATION_FIELDS
    }
    method = DYNAMIC if found.is_dynamic else STATIC
    return {**values, **place, "method": method, "connector": found.connector_id}


def _render_conflict(
    request: PageRequest, form: InfrastructureForm, connectors: Sequence[Connector], stored: Infrastructure
) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    given, mine = form.cleaned_data, form.build_spec()
    names = ("name", *_LOCATION_FIELDS, "is_dynamic")
    differs = diff_values(
        {name: getattr(stored, name) for name in names} | {"connector": str(stored.connector)},
        {name: getattr(mine, name) for name in names} | {"connector": str(given["connector"])},
    )
    entered = given | {"connector": given["connector"].pk, "version": stored.version}
    again = InfrastructureForm(connectors=connectors, initial=entered)
    return _render_form(request, again, stored.environment, stored, diff=differs, status=409)


def _render_form(
    request: PageRequest,
    form: InfrastructureForm,
    environment: Environment,
    place: Infrastructure | None = None,
    **more: Any,
) -> HttpResponse:
    services = list_deployable_services(request, environment) if place else []
    content = {"form": form, "environment": environment, "place": place, "services": services}
    status = more.pop("status", form.http_status)
    return render(request, "catalog/environments/place.html", content | more, status=status)
