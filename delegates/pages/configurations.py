"""Pages of delegate configurations: list, detail, create, edit, apply, delete."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.views.decorators.http import require_POST, require_safe

from delegates.forms.delegates import ApplyConfigurationForm, ConfigurationForm, NewConfigurationForm
from delegates.models import Delegate, DelegateConfiguration, DelegateTask
from delegates.operations import configurations as operations
from delegates.queries.configurations import list_configuration_runs, list_configurations_with_use
from rbac.policy import can_anywhere, filter_visible, get_permissions, require
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, EditPage, Obstacle, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW: Final = "core_delegateconfiguration_view"
EDIT: Final = "core_delegateconfiguration_edit"
DELETE: Final = "core_delegateconfiguration_delete"
SHOWN_DELEGATES: Final = 50


def _get_configuration(request: PageRequest, pk: int) -> DelegateConfiguration:
    return get_visible(request, VIEW, list_configurations_with_use(), pk=pk)


class ConfigurationPage(ResourcePage[DelegateConfiguration]):
    """A page about a delegate configuration."""

    load = staticmethod(_get_configuration)
    noun = "configuration"
    parents = (("Delegates", "delegates"), ("Configurations", "delegate-configurations"))
    detail = "delegate-configuration"


@require_sign_in
@require_safe
def list_configurations(request: PageRequest) -> HttpResponse:
    """List the configurations of the chosen scope."""
    configurations = list_visible(request, VIEW, list_configurations_with_use().defer("script"))
    content = {
        "page": paginate_queryset(configurations, request),
        "can_add": can_anywhere(request.user, EDIT),
    }
    return render(request, "delegates/configurations/list.html", content)


@require_sign_in
@require_safe
def show_configuration(request: PageRequest, pk: int) -> HttpResponse:
    """Show a configuration, its delegates, and the runs of its script."""
    configuration = _get_configuration(request, pk)
    form = ApplyConfigurationForm(person=request.user, configuration=configuration)
    return render(
        request, "delegates/configurations/configuration.html", _build_content(request, configuration, form)
    )


class NewConfiguration(ConfigurationPage, CreatePage[DelegateConfiguration]):
    """Create a configuration."""

    template_name = "delegates/configurations/form.html"
    permission = EDIT
    form_class = NewConfigurationForm
    title = "New delegate configuration"
    here = "New configuration"
    button = "Save"
    done = "Configuration {name} created. Assign it to delegates."

    def save(self, form: NewConfigurationForm) -> DelegateConfiguration:
        data = form.cleaned_data
        return operations.create_configuration(
            actor=self.request.user, scope=data["in_scope"], identifier=data["identifier"], **form.values
        )


class EditConfiguration(ConfigurationPage, EditPage[DelegateConfiguration]):
    """Edit a configuration."""

    template_name = "delegates/configurations/form.html"
    permission = EDIT
    form_class = ConfigurationForm
    fields = operations.FIELDS

    def get_form_options(self) -> dict[str, Any]:
        # The environments that are selected already stay offered, so posted values need them too.
        return {"initial": self.get_initial(), "person": self.request.user, "scope": self.object.scope}

    def save(self, form: ConfigurationForm) -> DelegateConfiguration:
        operations.update_configuration(actor=self.request.user, configuration=self.object, **form.values)
        return self.object


@require_sign_in
@require_POST
def apply_configuration(request: PageRequest, pk: int) -> HttpResponse:
    """Assign a configuration to the selected delegates."""
    configuration = _get_configuration(request, pk)
    require(request.user, "core_delegate_edit", configuration)
    form = ApplyConfigurationForm(request.POST, person=request.user, configuration=configuration)
    if form.is_valid():
        try:
            changed = operations.apply_configuration(
                actor=request.user,
                configuration=configuration,
                delegates=list(form.cleaned_data["delegates"]),
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            number = f"{len(changed)} delegate{' has' if len(changed) == 1 else 's have'}"
            messages.success(request, f"{number} {configuration.name} now.")
            return redirect("delegate-configuration", pk=pk)
    content = _build_content(request, configuration, form)
    return render(request, "delegates/configurations/configuration.html", content, status=form.http_status)


class DeleteConfiguration(ConfigurationPage, DeletePage[DelegateConfiguration]):
    """Delete a configuration without delegates."""

    permission = DELETE
    text = "No delegate uses it. Its script and the output of its runs are deleted too."
    done = "Configuration {name} deleted."

    def get_obstacle(self) -> Obstacle | None:
        if self.object.is_primary:
            return Obstacle("The primary configuration cannot be deleted. Clear its script to disable it.")
        count = Delegate.objects.filter(configuration=self.object).count()
        if not count:
            return None
        have, them = pluralize(count, "has,have"), pluralize(count, "it,them")
        text = f"{count} delegate{pluralize(count)} {have} it. Give {them} another configuration first."
        return Obstacle(text)

    def perform(self, **values: Any) -> None:
        operations.delete_configuration(actor=self.request.user, configuration=self.object)


def _build_content(
    request: PageRequest, configuration: DelegateConfiguration, form: ApplyConfigurationForm
) -> dict[str, Any]:
    delegates = Delegate.objects.filter(configuration=configuration).select_related("scope")
    rights = get_permissions(request.user, configuration)
    return {
        "configuration": configuration,
        "task_kinds": [DelegateTask.Kind(kind).label for kind in configuration.task_kinds],
        "configured_delegates": filter_visible(request.user, "core_delegate_view", delegates).order_by(
            "name"
        )[:SHOWN_DELEGATES],
        "runs": list_configuration_runs(configuration, request.user),
        "rights": rights,
        "form": form,
        "can_apply": "core_delegate_edit" in rights,
    }
