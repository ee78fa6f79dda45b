"""Pages of infrastructures: forms, and the clusters that a connector can list."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from aws.regions import list_regions
from catalog import operations
from catalog.forms.environments import DYNAMIC, STATIC, InfrastructureForm, NewInfrastructureForm
from catalog.models import Environment, Infrastructure
from catalog.pages.delete_pages import DeleteUsedPage
from catalog.pages.environments import EDIT, VIEW, EnvironmentPage, get_environment, list_deployable_services
from connectors.models import Connector
from connectors.queries import list_connectors
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import EcsCluster, list_clusters
from delegates.access.lookup_requests import list_clusters_by_delegate
from delegates.models import LookupRequest
from rbac.policy import filter_visible, require
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import Breadcrumb, CreateChildPage, FormPage, ResourcePage, VersionedEditPage
from web.http.problems import Problem
from web.text_diffs import TextDiff, diff_values

ACCESS: Final = "core_connector_access"


def _get_infrastructure(request: PageRequest, pk: int, infrastructure: int) -> Infrastructure:
    rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
    return get_visible(request, VIEW, rows, pk=infrastructure, environment_id=pk)


class InfrastructurePage(ResourcePage[Infrastructure]):
    """Page about an infrastructure of an environment."""

    load = staticmethod(_get_infrastructure)
    noun = "infrastructure"

    def get_parents(self) -> list[Breadcrumb]:
        environment = self.object.environment
        return [
            Breadcrumb("Environments", reverse("environments")),
            Breadcrumb(environment.name, reverse("environment", args=[environment.pk])),
        ]


class InfrastructureFormPage(FormPage[Any]):
    """A page with the form of an infrastructure."""

    template_name = "catalog/environments/place.html"
    permission = EDIT

    def get_environment(self) -> Environment:
        """Return the environment that the infrastructure belongs to."""
        raise NotImplementedError

    def get_context(self, form: InfrastructureForm) -> dict[str, Any]:
        return {"environment": self.get_environment()}


class NewInfrastructure(InfrastructureFormPage, EnvironmentPage, CreateChildPage[Environment]):
    """Add an infrastructure to an environment."""

    noun = "infrastructure"
    button = "Add infrastructure"
    form_class = NewInfrastructureForm

    def get_environment(self) -> Environment:
        return self.object

    def get_form_options(self) -> dict[str, Any]:
        connectors = _list_connectors(self.request, self.object)
        return {"connectors": connectors, "initial": _build_default_values(connectors)}

    def save(self, form: NewInfrastructureForm) -> Infrastructure:
        return operations.create_infrastructure(
            actor=self.request.user,
            environment=self.object,
            identifier=form.cleaned_data["identifier"],
            spec=form.build_spec(),
        )

    def get_done_message(self, saved: Infrastructure) -> str:
        if saved.is_dynamic:
            return f"Infrastructure {saved.name} created. The provisioner of each stage creates its cluster."
        return f"Infrastructure {saved.name} created: cluster {saved.cluster} in {saved.region}."


class EditInfrastructure(InfrastructureFormPage, InfrastructurePage, VersionedEditPage[Infrastructure]):
    """Edit an infrastructure."""

    form_class = InfrastructureForm

    def get_environment(self) -> Environment:
        return self.object.environment

    def get_stored(self) -> dict[str, Any]:
        infrastructure, prefix = self.object, "mapped_" if self.object.is_dynamic else ""
        return {
            "name": infrastructure.name,
            "connector": infrastructure.connector_id,
            "method": DYNAMIC if infrastructure.is_dynamic else STATIC,
            f"{prefix}region": infrastructure.region,
            f"{prefix}cluster": infrastructure.cluster,
        }

    def get_form_options(self) -> dict[str, Any]:
        infrastructure = self.object
        connectors = _list_connectors(self.request, infrastructure.environment, infrastructure.connector)
        return super().get_form_options() | {"connectors": connectors}

    def get_context(self, form: InfrastructureForm) -> dict[str, Any]:
        services = list_deployable_services(self.request, self.object.environment)
        return super().get_context(form) | {"place": self.object, "services": services}

    def get_entered(self, form: InfrastructureForm) -> dict[str, Any]:
        return form.cleaned_data | {"connector": form.cleaned_data["connector"].pk}

    def describe_change(self, form: InfrastructureForm) -> TextDiff:
        stored, spec, names = self.object, form.build_spec(), ("name", "region", "cluster", "is_dynamic")
        return diff_values(
            {name: getattr(stored, name) for name in names} | {"connector": str(stored.connector)},
            {name: getattr(spec, name) for name in names}
            | {"connector": str(form.cleaned_data["connector"])},
        )

    def save(self, form: InfrastructureForm) -> Infrastructure:
        return operations.update_infrastructure(
            actor=self.request.user,
            infrastructure=self.object,
            spec=form.build_spec(),
            version=self.get_opened_version(form),
        )


class DeleteInfrastructure(InfrastructurePage, DeleteUsedPage[Infrastructure]):
    """Delete an infrastructure, after naming the pipelines that deploy to it."""

    permission = EDIT
    text = "The infrastructure is deleted with its overrides. Deployed services keep running in AWS."
    done = "Infrastructure {name} deleted. Deployed services keep running."

    def perform(self, **values: Any) -> None:
        operations.delete_infrastructure(actor=self.request.user, infrastructure=self.object, **values)


@require_sign_in
@require_safe
def choose_cluster(request: PageRequest, pk: int) -> HttpResponse:
    """Render the cluster field with the clusters of a connector and region."""
    environment = get_environment(request, pk)
    require(request.user, EDIT, environment)
    return render_cluster_field(request, _list_connectors(request, environment))


@dataclass(frozen=True)
class ClusterFieldNames:
    """Names of the cluster field and its related fields; they begin with `prefix`."""

    id: str = "clusters"
    control: str = "id_cluster"
    prefix: str = ""


def render_cluster_field(
    request: PageRequest, connectors: Iterable[Connector], box: ClusterFieldNames = ClusterFieldNames()
) -> HttpResponse:
    """Render the cluster field with the clusters of the selected connector and region."""
    values = {name: request.GET.get(f"{box.prefix}{name}", "") for name in ("connector", "region", "cluster")}
    content: dict[str, Any] = {"chosen": values["cluster"], "region": values["region"], "box": box}
    try:
        content["connector"] = connector = _get_connector(values["connector"], connectors)
        _validate_region(content["region"])
        clusters = _list_clusters(request, connector, content["region"])
        if isinstance(clusters, LookupRequest):
            # A repeated request returns the response, or waits.
            content["waits"], content["again"] = clusters, request.get_full_path()
        else:
            content["names"] = [cluster.name for cluster in clusters]
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


def _get_connector(key: str, connectors: Iterable[Connector]) -> Connector:
    for connector in connectors:
        if str(connector.pk) == key:
            return connector
    raise Problem("Choose a connector first. Its credentials list the clusters.")


def _validate_region(region: str) -> None:
    """Return a valid region; it becomes part of the endpoint address."""
    if not any(region == item.name for item in list_regions()):
        raise Problem("Choose a region first.")


def _list_connectors(
    request: PageRequest, environment: Environment, present: Connector | None = None
) -> list[Connector]:
    """Return the connectors that the user may use here, and the current one."""
    usable = list(filter_visible(request.user, ACCESS, list_connectors(environment.scope)))
    return usable if present is None or present in usable else [present, *usable]


def _build_default_values(connectors: Sequence[Connector]) -> dict[str, Any]:
    """Return the initial values of a new infrastructure: the first connector and its test region."""
    if not connectors:
        return {}
    return {"connector": connectors[0].pk, "region": parse_aws_spec(connectors[0].spec).test_region}
