"""Forms of delegate configurations."""

from typing import Any

from django import forms

from delegates.known_environments import KnownEnvironment, known_environments
from delegates.models import Delegate, DelegateConfiguration
from delegates.queries.configurations import MOST_OFFERED, delegates_to_give
from guards.limits import SCRIPT_BYTES, SCRIPT_SECONDS
from rbac.models import Scope
from rbac.policy import Principal
from web.page_forms import PageForm, ScopeField, identifier_from

EDIT = "core_delegateconfiguration_edit"


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
        required=False, label="Environments", widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, *args: Any, person: Principal, scope: Scope, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="configuration-%s", **kwargs)
        known = known_environments(scope, person)[:MOST_OFFERED]
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


class NewConfigurationForm(ConfigurationForm):
    """A configuration that is not there yet."""

    in_scope = ScopeField(help_text="Delegates of this scope and below it can have the configuration.")
    identifier = forms.CharField(
        required=False,
        max_length=128,
        help_text="What programs call it; made from the name if empty.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, person: Principal, scope: Scope | None, **kwargs: Any) -> None:
        super().__init__(*args, person=person, scope=scope or Scope.objects.account(), **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.offer(person, EDIT, scope)

    def clean_identifier(self) -> str:
        """The identifier, made from the name where none was given."""
        given = str(self.cleaned_data["identifier"])
        return given or identifier_from(str(self.cleaned_data.get("name", "")))


class Delegates(forms.ModelMultipleChoiceField):
    """Delegates with where they are and what they have."""

    def label_from_instance(self, obj: Any) -> str:
        having = f", which has {obj.configuration}" if obj.configuration else ""
        return f"{obj.name} in {obj.scope.path}{having}"


class ApplyConfigurationForm(PageForm):
    """The delegates that a configuration is given to."""

    delegates = Delegates(Delegate.objects.none(), label="Delegates", widget=forms.CheckboxSelectMultiple)

    def __init__(
        self, *args: Any, person: Principal, configuration: DelegateConfiguration, **kwargs: Any
    ) -> None:
        super().__init__(*args, auto_id="apply-%s", **kwargs)
        offered = delegates_to_give(configuration, person).exclude(configuration=configuration)
        field = self.fields["delegates"]
        if isinstance(field, forms.ModelMultipleChoiceField):
            field.queryset = offered
