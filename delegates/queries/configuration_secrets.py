"""Secrets of the scripts of delegate configurations, and the configurations that use a secret."""

from collections.abc import Iterator

from django.urls import reverse

from connectors.models import Secret
from connectors.queries import find_secrets
from connectors.required_access import RequiredPermission
from connectors.secret_expressions import find_secret_references
from connectors.usages import UsableResource, register_usage_finder
from delegates.models import DelegateConfiguration
from rbac.models import Scope
from rbac.policy import Principal, build_below_filter, filter_visible
from web.usages import ResourceUsage, ResourceUsages


def list_script_secrets(scope: Scope, script: str) -> dict[str, Secret | None]:
    """Return the secrets of a script by reference, as seen from a scope; None for a missing one."""
    references = dict.fromkeys(find_secret_references(script))
    secrets = find_secrets(scope, references) if references else {}
    return {reference: secrets.get(reference) for reference in references}


def list_secret_needs(scope: Scope, script: str, *, path: str) -> Iterator[RequiredPermission]:
    """Yield the permissions needed for the secrets of a script; missing ones are skipped."""
    for reference, secret in list_script_secrets(scope, script).items():
        if secret is not None:
            title = f"the secret {reference}"
            yield RequiredPermission("core_secret_access", secret, title, title, path)


def list_configurations_by_secret(secret: Secret) -> list[DelegateConfiguration]:
    """Return the configurations whose scripts use a secret; only scripts with its identifier are parsed."""
    rows = DelegateConfiguration.objects.filter(
        build_below_filter(secret.scope, "scope"), script__contains=secret.identifier
    )
    return [
        configuration
        for configuration in rows.select_related("scope").order_by("scope__path", "identifier")
        if secret in list_script_secrets(configuration.scope, configuration.script).values()
    ]


@register_usage_finder
def find_configurations_by_secret(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the delegate configurations whose scripts use a secret."""
    if not isinstance(thing, Secret):
        return ResourceUsages()
    ids = [configuration.pk for configuration in list_configurations_by_secret(thing)]
    rows = DelegateConfiguration.objects.filter(pk__in=ids).order_by("scope__path", "identifier")
    usages = tuple(
        ResourceUsage(
            f"delegate configuration {configuration.name}",
            reverse("delegate-configuration", args=[configuration.pk]),
        )
        for configuration in filter_visible(principal, "core_delegateconfiguration_view", rows)
    )
    return ResourceUsages(usages, hidden=len(ids) - len(usages))
