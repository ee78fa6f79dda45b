"""Forms of environments, and what their pages show of the catalog."""

from typing import Any, Final

from django.db.models import Q, QuerySet
from django.utils.decorators import method_decorator

from catalog import operations
from catalog.forms.environments import EnvironmentForm, NewEnvironmentForm
from catalog.models import Environment, Service, ServiceOverride
from catalog.pages.delete_pages import DeleteUsedPage
from catalog.usages import describe_takeover
from rbac.policy import filter_visible
from web.forms.lost_input import show_lost_input
from web.forms.pages import PageRequest, get_visible
from web.forms.resource_pages import CreatePage, ResourcePage, VersionedEditPage

VIEW: Final = "core_environment_view"
EDIT: Final = "core_environment_edit"
DELETE: Final = "core_environment_delete"
# Limit of listed services on the page of an environment.
MOST_SERVICES: Final = 100


def get_environment(request: PageRequest, pk: int) -> Environment:
    """Return a visible environment. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, Environment.objects.select_related("scope"), pk=pk)


class EnvironmentPage(ResourcePage[Environment]):
    """A page about an environment."""

    load = staticmethod(get_environment)
    noun = "environment"
    parents = (("Environments", "environments"),)
    detail = "environment"


class NewEnvironment(EnvironmentPage, CreatePage[Environment]):
    """Create an environment."""

    template_name = "catalog/environments/edit.html"
    permission = EDIT
    form_class = NewEnvironmentForm
    here = "New"
    done = "Environment {name} created. Next, add an infrastructure."

    def save(self, form: NewEnvironmentForm) -> Environment:
        data = form.cleaned_data
        return operations.create_environment(
            actor=self.request.user,
            scope=data["in_scope"],
            identifier=data["identifier"],
            spec=form.build_spec(),
        )

    def get_done_message(self, saved: Environment) -> str:
        takeover = describe_takeover(saved, self.request.user)
        return f"{super().get_done_message(saved)} {takeover}".rstrip()


@method_decorator(show_lost_input, name="dispatch")
class EditEnvironment(EnvironmentPage, VersionedEditPage[Environment]):
    """Edit an environment with its variables."""

    template_name = "catalog/environments/edit.html"
    permission = EDIT
    form_class = EnvironmentForm
    fields = ("name", "description", "kind")

    def get_stored(self) -> dict[str, Any]:
        return super().get_stored() | {"variables": self.object.variables}

    def get_entered(self, form: EnvironmentForm) -> dict[str, Any]:
        return super().get_entered(form) | {"variables": form.variables.variables()}

    def save(self, form: EnvironmentForm) -> Environment:
        version = self.get_opened_version(form)
        return operations.update_environment(
            actor=self.request.user, environment=self.object, spec=form.build_spec(), version=version
        )


class DeleteEnvironment(EnvironmentPage, DeleteUsedPage[Environment]):
    """Delete an environment, after naming the pipelines that deploy to it."""

    permission = DELETE
    text = (
        "The environment is deleted with its variables and infrastructures. Deployed services keep "
        "running in AWS, and the execution history is kept."
    )
    done = "Environment {name} deleted. Deployed services keep running."

    def perform(self, **values: Any) -> None:
        operations.delete_environment(actor=self.request.user, environment=self.object, **values)


def list_overrides(request: PageRequest, environment: Environment) -> list[ServiceOverride]:
    """Return the visible overrides of services in this environment."""
    visible = filter_visible(request.user, "core_service_view", Service.objects.all())
    rows = environment.overrides.filter(service__in=visible).select_related("service", "infrastructure")
    return list(rows.order_by("service__name", "infrastructure__name"))


def list_deployable_services(request: PageRequest, environment: Environment) -> QuerySet[Service]:
    """Return the services that can be deployed to an environment: at its scope, above it, below it."""
    path = environment.scope.path
    related_scopes = Q(scope__path__in=environment.scope.ancestor_paths()) | Q(
        scope__path__startswith=f"{path}/"
    )
    visible = filter_visible(request.user, "core_service_view", Service.objects.filter(related_scopes))
    return visible.order_by("name", "pk")[:MOST_SERVICES]
