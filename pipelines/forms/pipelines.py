"""Forms of pipelines: YAML, name of an empty one, and template."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from catalog.manifests.yaml_drafts import render_scalar
from catalog.models import Infrastructure, Service
from guards.limits import SPEC_BYTES
from pipelines.definition.stage_targets import filter_nearest, list_infrastructures_near
from pipelines.editor.tree_paths import build_unique_identifier
from pipelines.models import Pipeline
from pipelines.pipeline_templates import (
    get_usual_identifier,
    list_template_titles,
    render_pipeline_template,
)
from rbac.models import Scope
from rbac.operations.identifiers import find_free_name
from rbac.policy import Principal, filter_visible
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import ScopedForm, VersionField
from web.http.problems import Problem

# The strategy that needs only a service and a cluster.
DEFAULT_STRATEGY = "Rolling"
EXAMPLE_SERVICE, EXAMPLE_INFRASTRUCTURE = "my_service", ("my_environment", "my_infrastructure")


class PipelineForm(PageForm):
    """Form of a pipeline's YAML; `version` is the version being edited."""

    yaml = forms.CharField(
        strip=False,
        max_length=int(SPEC_BYTES),
        widget=forms.Textarea,
        error_messages={"required": "Enter the YAML of the pipeline, or start from a template."},
    )
    version = VersionField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="pipeline-%s", **kwargs)
        self.problems: list[dict[str, Any]] = []

    def add_problem(self, problem: Problem | ValidationError) -> None:
        """Show a problem with a line below the text, and one without above the form."""
        if isinstance(problem, ValidationError):
            super().add_problem(problem)
            return
        self.problems = [error for error in problem.errors if error.get("line")]
        placeless = [error for error in problem.errors if not error.get("line")]
        if placeless or not problem.errors:
            super().add_problem(type(problem)(problem.detail, errors=placeless))
        else:
            self.add_error(None, problem.detail)


class NewPipelineForm(ScopedForm, PipelineForm):
    """Form for a new pipeline; the text contains identifier and name."""

    in_scope = ScopeField(help_text="The pipeline can use resources of this scope and the scopes above.")


class _NamedChoiceField(forms.ModelChoiceField):
    """A choice of services or infrastructures by name."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.environment.name} / {obj.name}" if isinstance(obj, Infrastructure) else str(obj.name)


class EmptyPipelineForm(PageForm):
    """Form for an empty pipeline, built in the visual editor (R157)."""

    name = forms.CharField(max_length=128, widget=forms.TextInput(attrs={"autocomplete": "off"}))

    def text(self) -> str:
        """Return a pipeline with this name and no stages; empty without a name."""
        if not (self.is_bound and self.is_valid()):
            return ""
        name = self.cleaned_data["name"]
        return (
            f"pipeline:\n  identifier: {build_unique_identifier(name, set())}\n"
            f"  name: {render_scalar(name)}\n  stages: []\n"
        )


class PipelineTemplateForm(PageForm):
    """Form for a new pipeline from a template: a strategy or a task, service and target."""

    new_resources: ClassVar[Mapping[str, NewResource]] = {
        "service": NewResource("service", "new-service", "core_service_edit")
    }
    strategy = forms.ChoiceField(label="Template")
    service = _NamedChoiceField(Service.objects.none(), empty_label=None)
    place = _NamedChoiceField(Infrastructure.objects.none(), empty_label=None, label="To")

    def __init__(self, data: Any, *, person: Principal, scope: Scope | None) -> None:
        super().__init__(data, auto_id="template-%s")
        self.scope = scope
        services = filter_nearest(Service.objects.all(), scope) if scope else Service.objects.none()
        places = list_infrastructures_near(scope) if scope else Infrastructure.objects.none()
        # Existing infrastructures come first; dynamic ones need a provisioner.
        order = ("is_dynamic", "environment__identifier", "identifier")
        places = places.select_related("environment__scope").order_by(*order)
        self.services = filter_visible(person, "core_service_view", services.select_related("scope"))
        self.places = filter_visible(person, "core_environment_view", places)
        for name, rows in (("service", self.services), ("place", self.places)):
            choices = self.fields[name]
            if isinstance(choices, forms.ModelChoiceField):
                choices.queryset = rows
        field = self.fields["strategy"]
        if isinstance(field, forms.ChoiceField):
            field.choices = list_template_titles()
            field.initial = DEFAULT_STRATEGY

    def text(self) -> str:
        """Return the YAML; fields left empty use the first option, or a placeholder."""
        self.full_clean()
        chosen = self.cleaned_data if self.is_bound else {}
        service = chosen.get("service") or self.services.first()
        place = chosen.get("place") or self.places.first()
        environment, infrastructure = (
            (place.environment.identifier, place.identifier) if place else EXAMPLE_INFRASTRUCTURE
        )
        name = service.identifier if service else EXAMPLE_SERVICE
        template = chosen.get("strategy") or DEFAULT_STRATEGY
        return render_pipeline_template(
            template,
            service=name,
            identifier=find_free_name(
                get_usual_identifier(template, name), Pipeline.objects.filter(scope=self.scope), "identifier"
            ),
            environment=environment,
            infrastructure=infrastructure,
            title=service.name if service else "my service",
            is_dynamic=bool(place and place.is_dynamic),
        )
