"""The rows that every installation has: account id, primary configuration, built-in delegate."""

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.db import transaction

from delegates.models.account import new_account_id


@transaction.atomic
def ensure_first_rows(apps: Apps = installed_apps) -> None:
    """Create what is missing (R057); safe to run again.

    A migration passes its own `apps`, hence only plain rows are written here.
    """
    account = apps.get_model("rbac", "Scope").objects.get(path="account")
    apps.get_model("delegates", "AccountId").objects.get_or_create(
        pk=1, defaults={"account_id": new_account_id()}
    )
    primary, _ = apps.get_model("delegates", "DelegateConfiguration").objects.get_or_create(
        is_primary=True, defaults={"scope": account, "identifier": "primary", "name": "Primary"}
    )
    apps.get_model("delegates", "Delegate").objects.get_or_create(
        is_built_in=True,
        defaults={
            "scope": account,
            "name": "built-in",
            "kind": "BUILT_IN",
            "description": "The workers of this Slipway, which make calls themselves.",
            "tags": ["built-in"],
            "configuration": primary,
        },
    )
