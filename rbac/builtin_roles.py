"""Synchronization of built-in roles in the database with the catalog."""

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.db import transaction

from rbac.permissions import BUILTIN_ROLES


@transaction.atomic
def ensure_builtin_roles(apps: Apps = installed_apps) -> None:
    """Create or correct the account scope and the built-in roles; safe to run again.

    A migration passes its own `apps`, hence only plain rows are written here.
    """
    scopes, roles = apps.get_model("rbac", "Scope"), apps.get_model("rbac", "Role")
    granted = apps.get_model("rbac", "RolePermission")
    scopes.objects.get_or_create(
        path="account", defaults={"kind": "ACCOUNT", "identifier": "account", "name": "Account"}
    )
    for builtin in BUILTIN_ROLES:
        role, _ = roles.objects.update_or_create(
            identifier=builtin.identifier, scope=None, defaults={"name": builtin.name, "builtin": True}
        )
        present = set(granted.objects.filter(role=role).values_list("permission", flat=True))
        granted.objects.filter(role=role, permission__in=present - builtin.permissions).delete()
        granted.objects.bulk_create(
            [granted(role=role, permission=p) for p in sorted(builtin.permissions - present)],
            ignore_conflicts=True,
        )
