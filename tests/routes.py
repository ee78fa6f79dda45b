"""Every address that the site can show something at, derived from the URL conf: no list that goes stale."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.contrib.admin.sites import site as admin_site
from django.db import models
from django.urls import get_resolver, reverse

from tests.api.rows import ROWS, names_of
from tests.api.sample_project import World


class NoCaseError(LookupError):
    """For an address there is nothing to show."""


@dataclass(frozen=True)
class Address:
    """One address with its name and the status for an administrator."""

    name: str
    path: str
    status: int


def addresses(world: World) -> Iterator[Address]:
    """Yield every address that can be loaded, filled with what is in `world`; then those of the admin site.

    What stands for a parameter is said by the same rows that say who may load it. Raises `NoCaseError`.
    """
    for name in names_of(get_resolver().url_patterns):
        if name not in ROWS:
            raise NoCaseError(f"The address {name} has no row in tests/api/rows.py.")
        row = ROWS[name]
        for ask in row.asks:
            if ask.method == "get":
                path = reverse(name, kwargs=row.kwargs(world))
                yield Address(f"{name}{ask.query}", f"{path}{ask.query}", ask.as_admin)
    yield from _admin_addresses()


def newest(model: type[models.Model]) -> models.Model | None:
    """Return the newest row; with random keys, by its timestamps."""
    fields = model._meta.concrete_fields
    moments = [field.name for field in fields if isinstance(field, models.DateTimeField) and not field.null]
    is_random = isinstance(model._meta.pk, models.UUIDField)
    return model._default_manager.order_by(*(f"-{name}" for name in moments if is_random), "-pk").first()


def _admin_addresses() -> Iterator[Address]:
    yield Address("admin:index", reverse("admin:index"), 200)
    for model in sorted(admin_site._registry, key=lambda model: model._meta.label):
        stem = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield Address(f"{stem}_changelist", reverse(f"{stem}_changelist"), 200)
        row = newest(model)
        if row is None:
            raise NoCaseError(f"There is no {model._meta.label} to show in the administration.")
        yield Address(f"{stem}_change", reverse(f"{stem}_change", args=[row.pk]), 200)
