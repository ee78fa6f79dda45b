"""Forms of delegates, delegate configurations and delegate tokens."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone

from connectors.specs.base import parse_tag_list
from delegates.models import Delegate, DelegateConfiguration, DelegateTask
from delegates.queries.configurations import (
    MAX_DELEGATE_CHOICES,
    DelegateEnvironment,
    list_assignable_delegates,
    list_delegate_environments,
)
from guards.limits import DELEGATE_TAGS, DESCRIPTION_CHARACTERS, NAME_CHARACTERS, SCRIPT_BYTES, SCRIPT_SECONDS
from rbac.models import Scope
from rbac.policy import Principal, filter_visible
from web.forms.drafts import NewResource, Selection
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, ScopedForm

# Configurations name environments of their scope and below.
NEW_ENVIRONMENT: Final = NewResource(
    "environment",
    "new-environment",
    "core_environment_edit",
    value_attribute="path",
    selection=Selection.ADD_CHOICE,
    is_inside=True,
)


class ConfigurationForm(PageForm):
    """Fields of a configuration; the script has its own editor."""

    conditional_fields = frozenset({"script"})
    new_resources: ClassVar[Mapping[str, NewResource]] = {"environments": NEW_ENVIRONMENT}

    name = forms.CharField(max_length=128)
    script = forms.CharField(required=False, strip=False, max_length=int(SCRIPT_BYTES))
    timeout_seconds = forms.IntegerField(
        label="Timeout in seconds",
        initial=600,
        min_value=1,
        max_value=int(SCRIPT_SECONDS),
        help_text="A script that runs longer is stopped and fails.",
    )
    requires_approval = forms.BooleanField(
        required=False,
        label="New delegates require approval",
        help_text="A delegate with this configuration gets tasks only after approval.",
    )
    environments = forms.MultipleChoiceField(
        required=False, label="Environments", widget=forms.CheckboxSelectMultiple
    )

    task_kinds = forms.MultipleChoiceField(
        required=False,
        label="Kinds of tasks",
        widget=forms.CheckboxSelectMultiple,
        choices=[(kind.value, kind.label) for kind in DelegateTask.LIMITABLE],
    )

    def __init__(self, *args: Any, person: Principal, scope: Scope, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="configuration-%s", **kwargs)
        environments = list_delegate_environments(scope, person)[:MAX_DELEGATE_CHOICES]
        # A choice that this reader may not view stays selected.
        paths = {environment.path for environment in environments}
        unlisted = [
            DelegateEnvironment(path, "")
            for path in self.initial.get("environments", [])
            if path not in paths
        ]
        field = self.fields["environments"]
        if isinstance(field, forms.MultipleChoiceField):
            field.choices = [
                (
                    environment.path,
                    f"{environment.name} ({environment.path})" if environment.name else environment.path,
                )
                for environment in [*environments, *unlisted]
            ]

    @property
    def values(self) -> dict[str, Any]:
        """Return the form's values for the operations."""
        names = ("name", "script", "timeout_seconds", "requires_approval", "environments", "task_kinds")
        return {name: self.cleaned_data[name] for name in names}


class NewConfigurationForm(IdentifierForm, ConfigurationForm):
    """Form for a new configuration."""

    in_scope = ScopeField(help_text="Delegates in this scope and below can use the configuration.")
    identifier = IdentifierField(help_text="Used in the API. Generated from the name if empty.")

    def __init__(
        self,
        *args: Any,
        person: Principal,
        permission: str,
        scope: Scope | None,
        among: Q | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, person=person, scope=scope or Scope.objects.account(), **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.set_choices(person, permission, scope, among=among)


class DelegateChoiceField(forms.ModelMultipleChoiceField):
    """Choice of delegates with their scope and configuration."""

    def label_from_instance(self, obj: Any) -> str:
        configuration = f", which has {obj.configuration}" if obj.configuration else ""
        return f"{obj.name} in {obj.scope.path}{configuration}"


class ApplyConfigurationForm(PageForm):
    """Form to assign a configuration to delegates."""

    delegates = DelegateChoiceField(
        Delegate.objects.none(), label="Delegates", widget=forms.CheckboxSelectMultiple
    )

    def __init__(
        self, *args: Any, person: Principal, configuration: DelegateConfiguration, **kwargs: Any
    ) -> None:
        super().__init__(*args, auto_id="apply-%s", **kwargs)
        offered = list_assignable_delegates(configuration, person).exclude(configuration=configuration)
        field = self.fields["delegates"]
        if isinstance(field, forms.ModelMultipleChoiceField):
            field.queryset = offered


class DelegateForm(PageForm):
    """Description, tags, configuration, and whether projects share it without isolation."""

    description = forms.CharField(
        required=False,
        max_length=int(DESCRIPTION_CHARACTERS),
        widget=forms.Textarea(attrs={"class": "input area", "rows": 3}),
    )
    tags = forms.CharField(
        required=False,
        max_length=int(DELEGATE_TAGS) * (int(NAME_CHARACTERS) + 1),
        help_text="Separate with commas or spaces. Connectors and steps select delegates by tags. Its name "
        "and the tags in the settings of its instances count too.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )
    configuration = forms.ModelChoiceField(
        DelegateConfiguration.objects.none(),
        required=False,
        empty_label="Unchanged",
        help_text="Its script runs when an agent starts. It can limit the delegate to environments.",
    )

    shares_scripts = forms.BooleanField(
        required=False,
        label="Share without isolation",
        help_text="Instances without isolation can run scripts of several projects, which can then read "
        "each other's secrets. Otherwise such an instance runs scripts of one project only.",
    )

    def __init__(self, *args: Any, person: Principal, delegate: Delegate, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="delegate-%s", **kwargs)
        near: QuerySet[DelegateConfiguration] = DelegateConfiguration.objects.filter(
            scope__path__in=delegate.scope.ancestor_paths()
        )
        offered = filter_visible(person, "core_delegateconfiguration_view", near).order_by("name", "pk")
        field = self.fields["configuration"]
        if isinstance(field, forms.ModelChoiceField):
            field.queryset = offered

    def clean_tags(self) -> list[str]:
        """Return the distinct tags as a list."""
        return parse_tag_list(self.cleaned_data["tags"])


EXPIRY_CHOICES = (("", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"))


class RenameTokenForm(PageForm):
    """Form for a new name of a token."""

    name = forms.CharField(max_length=128, help_text="For example where it is used.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="token-%s", **kwargs)


class NewTokenForm(ScopedForm, RenameTokenForm):
    """Form for a new token."""

    in_scope = ScopeField(help_text="Delegates that register with the token belong to this scope.")
    expires = forms.ChoiceField(
        choices=EXPIRY_CHOICES,
        required=False,
        label="Expires",
        help_text="After that, open sessions continue but no new session can start.",
    )

    field_order = ("in_scope", "name", "expires")

    @property
    def expires_at(self) -> datetime | None:
        days = self.cleaned_data["expires"]
        return timezone.now() + timedelta(days=int(days)) if days else None
