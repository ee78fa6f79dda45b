"""Forms of freeze windows."""

from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django import forms

from catalog.forms.resources import InScope, ResourceForm, WithIdentifier
from catalog.models import Environment
from deployments.freezes import FreezeSpec
from deployments.models import FreezeWindow

_MOMENT = {"type": "datetime-local", "class": "input"}


@cache
def _zones() -> list[tuple[str, str]]:
    """The names of all time zones that this machine knows; read from its files once."""
    return [(name, name) for name in sorted(available_timezones())]


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


class FreezeForm(ResourceForm):
    """When nothing is deployed, and what that concerns."""

    description = forms.CharField(
        label="Reason",
        required=False,
        max_length=4096,
        help_text="Shown to whoever is held back.",
        widget=forms.Textarea(attrs={"class": "input area", "rows": 2}),
    )
    begins = forms.CharField(max_length=19, widget=forms.TextInput(attrs=_MOMENT))
    ends = forms.CharField(max_length=19, widget=forms.TextInput(attrs=_MOMENT))
    time_zone = forms.ChoiceField(initial="UTC", help_text="Whose wall clock these times are read from.")
    weekly = forms.BooleanField(required=False, label="Again every week, at the same local time")
    environment_kind = forms.ChoiceField(
        label="Type of environment",
        required=False,
        choices=[("", "Every type"), *Environment.Kind.choices],
    )
    environments = forms.CharField(
        required=False, max_length=4096, help_text="Identifiers, separated by commas; empty for all."
    )
    services = forms.CharField(
        required=False, max_length=4096, help_text="Identifiers, separated by commas; empty for all."
    )
    enabled = forms.BooleanField(required=False, initial=True, label="In force")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = self.fields["time_zone"]
        if isinstance(zone, forms.ChoiceField):
            zone.choices = _zones()

    def spec(self) -> FreezeSpec:
        """What was entered."""
        given = self.cleaned_data
        return FreezeSpec(
            name=given["name"],
            reason=given["description"],
            begins=given["begins"],
            ends=given["ends"],
            time_zone=given["time_zone"],
            weekly=given["weekly"],
            services=_names(given["services"]),
            environments=_names(given["environments"]),
            environment_kind=given["environment_kind"],
            enabled=given["enabled"],
        )


class NewFreezeForm(InScope, WithIdentifier, FreezeForm):
    """A window that is not there yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["in_scope"].help_text = "Runs of this scope and of those below it are held back."
        self.fields["identifier"].help_text = "What the API calls it; it stays. Made from the name if empty."


def values_of(window: FreezeWindow) -> dict[str, Any]:
    """A window as its form shows it."""
    names = ("name", "description", "begins", "ends", "time_zone", "weekly", "environment_kind", "enabled")
    return {
        **{name: getattr(window, name) for name in names},
        "services": ", ".join(window.services),
        "environments": ", ".join(window.environments),
        "version": window.version,
    }
