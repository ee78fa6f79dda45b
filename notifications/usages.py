"""Usages of connectors and secrets by notification rules."""

from collections.abc import Collection, Sequence

from django.urls import reverse

from connectors.models import Connector, Secret
from connectors.queries import ConnectorIndex, SecretNotFound, find_secret
from connectors.usages import (
    UsableResource,
    UserKeys,
    group_connector_users,
    register_connector_users,
    register_usage_finder,
)
from notifications.models import NotificationRule
from notifications.repository_tokens import CONNECTOR, SECRET
from rbac.policy import Principal, filter_visible
from web.usages import ResourceUsage, ResourceUsages


def build_rule_links(ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of notification rules from their keys."""
    rules = NotificationRule.objects.filter(pk__in=ids).defer("url", "secret")
    visible = filter_visible(principal, "core_notificationrule_view", rules).order_by("name", "pk")
    usages = tuple(
        ResourceUsage(f"notification rule {rule.name}", reverse("notification-rule", args=[rule.pk]))
        for rule in visible
    )
    return ResourceUsages(usages, hidden=len(ids) - len(usages))


@register_connector_users("notification rule", build_rule_links)
def find_rules_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the rules that take their token from each connector; two queries."""
    index = ConnectorIndex(connectors)
    rows = NotificationRule.objects.filter(options__connector__in=index.references)
    return group_connector_users(
        (index.find_key(path, reference, Connector.Kind.GIT), pk)
        for pk, path, reference in rows.values_list("pk", "scope__path", f"options__{CONNECTOR}")
    )


@register_usage_finder
def find_rules_by_secret(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the rules that take their token from a secret."""
    if not isinstance(thing, Secret):
        return ResourceUsages()
    references = [thing.identifier, f"account.{thing.identifier}", f"org.{thing.identifier}"]
    rows = NotificationRule.objects.filter(**{f"options__{SECRET}__in": references})
    ids = [
        rule.pk
        for rule in rows.select_related("scope").defer("url", "secret")
        if _is_same_secret(rule, thing)
    ]
    return build_rule_links(ids, principal)


def _is_same_secret(rule: NotificationRule, secret: Secret) -> bool:
    try:
        return find_secret(rule.scope, rule.options[SECRET]) == secret
    except SecretNotFound:
        return False
