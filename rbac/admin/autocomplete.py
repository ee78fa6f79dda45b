"""Search of the admin site's select boxes: it offers the same rows as the form that asks."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, QuerySet
from django.http import HttpRequest

AUTOCOMPLETE_URL = "autocomplete"


class KeySelect(AutocompleteSelect):
    """Searched select box for one row.

    It draws only values that are keys: the framework would ask the database for any text that was sent.
    """

    def optgroups(self, name: str, value: Any, attr: Any = None) -> Any:
        keys = [key for key in value if not key or (key.isascii() and key.isdigit() and len(key) < 19)]
        return super().optgroups(name, keys, attr)


def is_autocomplete(request: HttpRequest) -> bool:
    """Return whether a select box asks for its options."""
    match = request.resolver_match
    return match is not None and match.url_name == AUTOCOMPLETE_URL


def can_use_form(request: HttpRequest, site: admin.AdminSite) -> bool:
    """Return whether the user may add or change rows with the form that asks."""
    source = _get_source(request, site)
    return source is not None and (
        source.has_add_permission(request) or source.has_change_permission(request)
    )


def list_offered_rows(request: HttpRequest, site: admin.AdminSite) -> QuerySet[Any] | None:
    """Return the rows that the form accepts for the field, or None if the field is unknown."""
    source = _get_source(request, site)
    if source is None:
        return None
    try:
        field = source.model._meta.get_field(request.GET.get("field_name", ""))
    except FieldDoesNotExist:
        return None
    form_field: Any = source.formfield_for_dbfield(field, request)
    return getattr(form_field, "queryset", None)


def _get_source(request: HttpRequest, site: admin.AdminSite) -> "admin.ModelAdmin[Any] | None":
    """Return the admin of the form that asks."""
    try:
        model: type[Model] = apps.get_model(
            request.GET.get("app_label", ""), request.GET.get("model_name", "")
        )
    except (LookupError, ValueError):
        return None
    return site._registry.get(model)
