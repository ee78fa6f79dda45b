"""Forms of delegates, delegate configurations and delegate tokens."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils import timezone

from connectors.delegate_tags import parse_tag_list
from delegates.models import Delegate, DelegateConfiguration
from delegates.queries.configurations import (
    MAX_DELEGATE_CHOICES,
    KnownEnvironment,
    list_assignable_delegates,
    list_known_environments,
)
from guards.limits import DELEGATE_TAGS, DESCRIPTION_CHARACTERS, NAME_CHARACTERS, SCRIPT_BYTES, SCRIPT_SECONDS
from rbac.models import Scope
from rbac.policy import Principal, filter_visible
from web.forms.page_forms import PageForm
from web.forms.resource_forms import IdentifierForm, ScopedForm


class ConfigurationForm(PageForm):
    """What a configuration does; the script is edited beside these fields."""

    depending = frozenset({"script"})

    name = forms.CharField(max_length=128)
    script = forms.CharField(required=False, strip=False, max_length=int(SCRIPT_BYTES))
    timeout_seconds = forms.IntegerField(
        label="Longest run, in seconds",
        initial=600,
        min_value=1,
        max_value=int(SCRIPT_SECONDS),
        help_text="A script that runs longer is ended, and has failed.",
    )
    requires_approval = forms.BooleanField(
        required=False,
        label="New delegates wait for approval",
        help_text="A delegate with this configuration works only after somebody has approved it.",
    )
    environments = forms.MultipleChoiceField(
        required=False,
        label="Environments",
        help_text="If none is selected, all environments can use them, including those created later.",
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, *args: Any, near: Scope, reader: Principal, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="configuration-%s", **kwargs)
        known = list_known_environments(near, reader)[:MAX_DELEGATE_CHOICES]
        # What somebody else may see stays chosen, though this reader does not know its name.
        paths = {one.path for one in known}
        kept = [
            KnownEnvironment(path, "") for path in self.initial.get("environments", []) if path not in paths
        ]
        field = self.fields["environments"]
        if isinstance(field, forms.MultipleChoiceField):
            field.choices = [
                (one.path, f"{one.name} ({one.path})" if one.name else one.path) for one in [*known, *kept]
            ]

    @property
    def values(self) -> dict[str, Any]:
        """What the operations take of it."""
        names = ("name", "script", "timeout_seconds", "requires_approval", "environments")
        return {name: self.cleaned_data[name] for name in names}


class NewConfigurationForm(ScopedForm, IdentifierForm, ConfigurationForm):
    """A configuration that is not there yet."""


class DelegateChoiceField(forms.ModelMultipleChoiceField):
    """Delegates with where they are and what they have."""

    def label_from_instance(self, obj: Any) -> str:
        having = f", which has {obj.configuration}" if obj.configuration else ""
        return f"{obj.name} in {obj.scope.path}{having}"


class ApplyConfigurationForm(PageForm):
    """The delegates that a configuration is given to."""

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
        help_text="With commas or blanks between them. Connectors and steps choose delegates by these.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )
    configuration = forms.ModelChoiceField(
        DelegateConfiguration.objects.none(),
        required=False,
        empty_label="As it is",
        help_text="Its script runs when an agent starts; it may keep the delegate to some environments.",
    )

    shares_scripts = forms.BooleanField(
        required=False,
        label="Share without isolation",
        help_text="Lets instances without isolation run scripts of several projects, which can then read "
        "each other's secrets. Without it such an instance runs scripts of one project only.",
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
        """Tags as a list, each once."""
        return parse_tag_list(self.cleaned_data["tags"])


EXPIRY_CHOICES = (("", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"))


class NewTokenForm(ScopedForm):
    """A token that is not there yet."""

    name = forms.CharField(max_length=128, help_text="Describe it, for example by where it is used.")
    expires = forms.ChoiceField(
        choices=EXPIRY_CHOICES,
        required=False,
        label="Expires",
        help_text="Open sessions continue after that. New ones are refused.",
    )

    field_order = ("in_scope", "name", "expires")

    @property
    def expires_at(self) -> datetime | None:
        days = self.cleaned_data["expires"]
        return timezone.now() + timedelta(days=int(days)) if days else None
