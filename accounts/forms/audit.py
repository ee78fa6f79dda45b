"""Filter form of the audit trail, shared by page, export and API."""

import re
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.apps import apps
from django.db.models import Q

from web.forms.page_forms import PageForm

AUDIT_SOURCES: Final = (
    ("page", "Pages"),
    ("api", "API"),
    ("admin", "Administration"),
    ("agent", "Delegates"),
    ("git", "Git syncs"),
    ("internal", "Slipway"),
)
YEAR_RANGE: Final = range(1970, 9999)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_RARE_FIELDS: Final = ("source", "thing_id", "request_id", "address")
_APPS: Final = (
    "rbac", "connectors", "notifications", "delegates", "policies", "catalog", "pipelines", "deployments",
    "inventory", "gitsync", "ops",
)  # fmt: skip


def list_resource_types() -> list[tuple[str, str]]:
    """Return the resource types of entries with their names: ("connectors.connector", "Connector")."""
    models = (model for name in _APPS for model in apps.get_app_config(name).get_models())
    resource_types = [
        (model._meta.label_lower, str(model._meta.verbose_name).capitalize()) for model in models
    ]
    return sorted(resource_types, key=lambda kind: kind[1])


class TimestampField(forms.DateTimeField):
    """Field of a time in UTC by default; a date means its beginning or its end."""

    def __init__(self, *, is_end: bool = False, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self._is_end = is_end
        self.widget = forms.TextInput(attrs={"type": "datetime-local", "step": "1"})

    def to_python(self, value: Any) -> datetime | None:
        timestamp = super().to_python(value)
        if timestamp is None:
            return None
        if timestamp.year not in YEAR_RANGE:
            raise forms.ValidationError(f"Enter a year from {YEAR_RANGE[0]} to {YEAR_RANGE[-1]}.")
        is_day = isinstance(value, str) and _DAY.fullmatch(value.strip())
        return timestamp + timedelta(days=1) if self._is_end and is_day else timestamp


def _build_text_field(length: int, label: str, placeholder: str = "") -> forms.CharField:
    widget = forms.TextInput(attrs={"placeholder": placeholder} if placeholder else {})
    return forms.CharField(required=False, max_length=length, label=label, widget=widget)


class AuditFilterForm(PageForm):
    """Conditions that an entry has to meet, all of them."""

    who = _build_text_field(150, "Who", "A user name")
    action = _build_text_field(64, "Action", "connector.update, or connector")
    kind = forms.ChoiceField(
        required=False, choices=lambda: [("", "Any"), *list_resource_types()], label="Resource type"
    )
    thing = _build_text_field(400, "Resource name", "Part of the name")
    since = TimestampField(label="From (UTC)")
    until = TimestampField(label="Until (UTC)", is_end=True)
    source = forms.ChoiceField(required=False, choices=[("", "Any"), *AUDIT_SOURCES], label="Source")
    thing_id = _build_text_field(64, "Resource ID")
    request_id = _build_text_field(64, "Request ID")
    address = _build_text_field(64, "Source address", "192.0.2.7")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # All filters are optional, so the labels do not say so.
        self.conditional_fields = frozenset(self.fields)  # type: ignore[misc]

    @property
    def shown(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in _RARE_FIELDS]

    @property
    def rare(self) -> list[forms.BoundField]:
        """Return the fields of rare filters, which the page collapses."""
        return [self[name] for name in _RARE_FIELDS]

    @property
    def has_rare(self) -> bool:
        return any(self.data.get(name) for name in _RARE_FIELDS)

    @property
    def condition(self) -> Q:
        """Return the filter condition. Raises `BadInput` with each invalid field."""
        self.require_valid("The filter is not valid.")
        return self._condition()

    @property
    def is_narrowing(self) -> bool:
        return any(self.data.get(name) for name in self.fields)

    def _condition(self) -> Q:
        condition = Q()
        for name, lookup in _LOOKUPS.items():
            if value := self.cleaned_data[name]:
                condition &= Q(**{lookup: value})
        if action := self.cleaned_data["action"]:
            condition &= Q(action=action) | Q(action__startswith=f"{action}.")
        return condition


_LOOKUPS: Final = {
    "who": "actor_name",
    "kind": "thing_type",
    "thing": "thing_name__icontains",
    "thing_id": "thing_id",
    "source": "source",
    "request_id": "request_id",
    "address": "address",
    "since": "at__gte",
    "until": "at__lt",
}
