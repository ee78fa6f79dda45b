"""Resource groups of a scope with their entries in words, and the resources that can be added."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count, F, Prefetch, Q, QuerySet

from accounts.queries.granted_roles import VIEW_USERS, build_reach_filter
from rbac.models import ResourceGroup, ResourceGroupEntry, RoleAssignment, Scope
from rbac.permissions import RESOURCE_TITLES
from rbac.policy import Principal, filter_visible
from rbac.policy.resources import (
    get_identifier_column,
    get_resource_models,
    get_resource_title,
    get_scope_path,
    get_type_view_permission,
)
from web.search_filters import contains_text

VIEW_RESOURCE_GROUPS: Final = "core_resourcegroup_view"
RESOURCE_GROUP_FILTERS: Final[Mapping[str, str]] = {
    "": "All resource groups",
    "used": "In use",
    "unused": "Not in use",
}
MAX_SHOWN_ENTRIES: Final = 3


@dataclass(frozen=True)
class GroupEntry:
    """Entry of a resource group in words."""

    row: ResourceGroupEntry

    @property
    def title(self) -> str:
        """Return the entry in words: "All pipelines", or "Pipeline web"."""
        kind, identifier = self.row.resource, self.row.identifier
        return f"{get_resource_title(kind)} {identifier}" if identifier else describe_whole_type(kind)


@dataclass
class ResourceGroupSummary:
    """Resource group of a list: the first entries, and the numbers of the others and of its assignments."""

    group: ResourceGroup
    assignment_count: int

    @property
    def entries(self) -> list[GroupEntry]:
        return [GroupEntry(row) for row in self.group.entries.all()]

    @property
    def shown_entries(self) -> list[GroupEntry]:
        return self.entries[:MAX_SHOWN_ENTRIES]

    @property
    def hidden_count(self) -> int:
        return max(0, len(self.entries) - MAX_SHOWN_ENTRIES)


@dataclass(frozen=True)
class ResourceCandidate:
    """Resources of one type with the same identifier, with the paths of their scopes."""

    identifier: str
    scopes: Sequence[str]


def describe_whole_type(kind: str) -> str:
    """Return all resources of a type in words, such as "All pipelines", or "Audit trail"."""
    title = RESOURCE_TITLES[kind]
    return f"All {title[0].lower()}{title[1:]}" if title.endswith("s") else title


def list_visible_resource_groups(principal: Principal) -> QuerySet[ResourceGroup]:
    """Return the visible resource groups with their scopes and entries."""
    entries = ResourceGroupEntry.objects.order_by("resource", "identifier")
    groups = ResourceGroup.objects.select_related("scope").prefetch_related(Prefetch("entries", entries))
    return filter_visible(principal, VIEW_RESOURCE_GROUPS, groups)


def list_resource_groups(principal: Principal, scope: Scope | None, name: str) -> QuerySet[ResourceGroup]:
    """Return the visible groups of a scope, above it and below it that match `RESOURCE_GROUP_FILTERS`."""
    if scope is None:
        return ResourceGroup.objects.none()
    groups = list_visible_resource_groups(principal).filter(build_reach_filter(scope))
    used = RoleAssignment.objects.filter(resource_group__isnull=False).values("resource_group")
    filters = {"used": Q(pk__in=used), "unused": ~Q(pk__in=used)}
    return groups.filter(filters.get(name, Q()))


def summarize_resource_groups(
    principal: Principal, groups: Sequence[ResourceGroup]
) -> list[ResourceGroupSummary]:
    """Return the groups with the numbers of their visible assignments, in the same order; one query."""
    rows = RoleAssignment.objects.filter(resource_group__in=[group.pk for group in groups])
    grouped = filter_visible(principal, VIEW_USERS, rows).order_by().values_list("resource_group")
    counts: dict[int, int] = dict(grouped.annotate(count=Count("pk")))
    return [ResourceGroupSummary(group, counts.get(group.pk, 0)) for group in groups]


def filter_candidates(principal: Principal, group: ResourceGroup, kind: str, text: str = "") -> QuerySet[Any]:
    """Return the visible resources of a type that the group can name and does not name yet.

    They belong to the scope of the group or one below it, and match a search text. Each row has its
    `group_identifier`, by which it is ordered.
    """
    model: Any = get_resource_models()[kind]
    column = get_identifier_column(kind, model)
    named = group.entries.filter(resource=kind).values("identifier")
    rows = model._default_manager.annotate(group_identifier=F(column)).exclude(group_identifier__in=named)
    if text:
        has_name = any(field.name == "name" for field in model._meta.concrete_fields)
        in_name = Q(contains_text("name", text)) if has_name else Q()
        rows = rows.filter(Q(contains_text(column, text)) | in_name)
    visible = filter_visible(principal, get_type_view_permission(kind), rows, group.scope)
    return visible.order_by("group_identifier")


def describe_candidates(kind: str, rows: QuerySet[Any], limit: int) -> list[ResourceCandidate]:
    """Return the first resources of `filter_candidates`, those with one identifier as one; two queries."""
    path = f"{get_scope_path(get_resource_models()[kind])}__path"
    identifiers = list(rows.values_list("group_identifier", flat=True).distinct()[:limit])
    places: dict[str, list[str]] = {identifier: [] for identifier in identifiers}
    for identifier, place in rows.filter(group_identifier__in=identifiers).values_list(
        "group_identifier", path
    ):
        places[identifier].append(place)
    return [ResourceCandidate(identifier, sorted(paths)) for identifier, paths in places.items()]
