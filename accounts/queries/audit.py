"""Readable audit entries, the changes in an entry, and the page of its resource."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.apps import apps
from django.db.models import QuerySet
from django.urls import reverse

from rbac.models import AuditEntry, Scope
from rbac.policy import Principal, can, filter_visible
from web.retention import RetentionRule
from web.text_diffs import TextDiff, compare_texts

VIEW_AUDIT = "core_audit_view"

AUDIT_RETENTION: Final = (RetentionRule("Audit entries", AuditEntry.objects.all(), "at", age=None),)


def list_readable_entries(principal: Principal, scope: Scope | None = None) -> QuerySet[AuditEntry]:
    """Return the entries that `principal` may read, optionally at and below `scope`.

    Readers of the account's trail read all entries, including sign-ins without a scope and archived scopes.
    """
    entries = AuditEntry.objects.select_related("scope")
    is_wide = scope is None or scope.kind == Scope.Kind.ACCOUNT
    if is_wide and can(principal, VIEW_AUDIT, Scope.objects.account()):
        return entries
    return filter_visible(principal, VIEW_AUDIT, entries, scope)


class _ResourcePage(NamedTuple):
    page: str
    permission: str


# The apps above are named by tables and URL names: this package imports none of them.
_RESOURCE_PAGES: Final = {
    "rbac.role": _ResourcePage("role", "core_role_view"),
    "rbac.resourcegroup": _ResourcePage("resource-group", "core_resourcegroup_view"),
    "rbac.usergroup": _ResourcePage("user-group", "core_usergroup_view"),
    "rbac.serviceaccount": _ResourcePage("service-account", "core_serviceaccount_view"),
    "connectors.connector": _ResourcePage("connector", "core_connector_view"),
    "connectors.secret": _ResourcePage("secret", "core_secret_view"),
    "connectors.filenode": _ResourcePage("file", "core_file_view"),
    "notifications.notificationrule": _ResourcePage("notification-rule", "core_notificationrule_view"),
    "policies.policyrule": _ResourcePage("policy-rule", "core_policyrule_view"),
    "gitsync.gitsync": _ResourcePage("git-sync", "core_gitsync_view"),
    "delegates.delegate": _ResourcePage("delegate", "core_delegate_view"),
    "delegates.delegatetoken": _ResourcePage("delegate-token", "core_delegate_view"),
    "delegates.delegateconfiguration": _ResourcePage(
        "delegate-configuration", "core_delegateconfiguration_view"
    ),
    "delegates.delegatetask": _ResourcePage("delegate-task", "core_delegate_view"),
    "catalog.service": _ResourcePage("service", "core_service_view"),
    "catalog.environment": _ResourcePage("environment", "core_environment_view"),
    "pipelines.pipeline": _ResourcePage("pipeline", "core_pipeline_view"),
    "deployments.execution": _ResourcePage("execution", "core_pipeline_view"),
}


def get_resource_page_url(entry: AuditEntry, reader: Principal) -> str:
    """Return the URL of the entry's resource, or an empty text if the reader cannot view it."""
    place = _RESOURCE_PAGES.get(entry.thing_type)
    if place is None:
        return ""
    things = apps.get_model(entry.thing_type)._default_manager.filter(pk=entry.thing_id)
    if not filter_visible(reader, place.permission, things).exists():
        return ""
    return reverse(place.page, args=[entry.thing_id])


@dataclass(frozen=True)
class AuditChange:
    """Changed value; None on the side without the value. Longer texts are compared by line."""

    path: str
    before: str | None
    after: str | None

    @property
    def lines(self) -> TextDiff | None:
        """Return the difference by line, if a side has several lines."""
        before, after = self.before or "", self.after or ""
        return compare_texts(before, after) if "\n" in before or "\n" in after else None


def compute_changes(before: Any, after: Any) -> list[AuditChange]:
    """Return each place where the two differ, in the order in which they name them."""
    old, new = dict(_iterate_leaves(before)), dict(_iterate_leaves(after))
    return [
        AuditChange(path, old.get(path), new.get(path))
        for path in dict.fromkeys([*old, *new])
        if old.get(path) != new.get(path)
    ]


def _iterate_leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _iterate_leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for number, item in enumerate(value):
            yield from _iterate_leaves(item, f"{path}.{number}" if path else str(number))
    elif value is not None:
        yield path, _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(item if isinstance(item, str) else json.dumps(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)
