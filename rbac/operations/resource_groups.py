"""Operations on resource groups."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from guards.limits import RESOURCE_GROUP_ENTRIES
from rbac import audit
from rbac.models import ResourceGroup, ResourceGroupEntry, Scope, User
from rbac.operations.escalation_checks import refuse_role_escalation, require_permission
from rbac.operations.identifiers import build_unique_identifier, create_unique
from rbac.operations.roles import remove_assignments
from rbac.operations.row_locks import lock_row

# Type and identifier of a resource; an empty identifier means the whole type.
ResourceGroupEntrySpec = tuple[str, str]


@transaction.atomic
def create_resource_group(
    *,
    actor: User | None,
    scope: Scope,
    name: str,
    entries: Iterable[ResourceGroupEntrySpec],
    identifier: str = "",
    description: str = "",
) -> ResourceGroup:
    """Create a resource group, which limits role assignments at `scope` and below.

    Without an `identifier` it is derived from the name. Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    require_permission(actor, "core_resourcegroup_edit", scope)
    siblings = ResourceGroup.objects.filter(scope=scope)
    group = ResourceGroup(scope=scope, name=name, description=description)
    group.identifier = identifier or build_unique_identifier(name, siblings, "resource_group")
    group.full_clean(validate_constraints=False)
    entry_set = _validate_entries(entries)
    create_unique(
        group, ValidationError({"identifier": f"A resource group {group.identifier} already exists."})
    )
    _set_entries(group, entry_set)
    audit.record_audit_entry(
        actor=actor, action="resourcegroup.create", thing=group, after=_build_audit_values(group, entry_set)
    )
    return group


@transaction.atomic
def update_resource_group(
    *,
    actor: User | None,
    group: ResourceGroup,
    name: str,
    description: str,
    entries: Iterable[ResourceGroupEntrySpec],
) -> ResourceGroup:
    """Update name and entries of a resource group.

    New entries extend the roles that are limited to the group, so the actor needs their permissions.
    """
    require_permission(actor, "core_resourcegroup_edit", group.scope)
    entry_set, stored = _validate_entries(entries), lock_row(group)
    present = _entries(group)
    if entry_set - present:
        refuse_role_escalation(actor, group.assignments.all())
    group.name, group.description, group.version = name, description, stored.version + 1
    group.full_clean()
    group.save(update_fields=["name", "description", "version"])
    _set_entries(group, entry_set)
    audit.record_audit_entry(
        actor=actor,
        action="resourcegroup.update",
        thing=group,
        before=_build_audit_values(stored, present),
        after=_build_audit_values(group, entry_set),
    )
    return group


@transaction.atomic
def add_resource_group_entries(
    *, actor: User | None, group: ResourceGroup, entries: Iterable[ResourceGroupEntrySpec]
) -> ResourceGroup:
    """Add entries to a resource group, with the checks of `update_resource_group`."""
    group = lock_row(group)
    return _change_entries(actor, group, _entries(group).union(entries))


@transaction.atomic
def remove_resource_group_entry(
    *, actor: User | None, group: ResourceGroup, entry: ResourceGroupEntrySpec
) -> ResourceGroup:
    """Remove an entry from a resource group, with the checks of `update_resource_group`."""
    group = lock_row(group)
    return _change_entries(actor, group, _entries(group) - {entry})


def _change_entries(
    actor: User | None, group: ResourceGroup, entries: set[ResourceGroupEntrySpec]
) -> ResourceGroup:
    return update_resource_group(
        actor=actor, group=group, name=group.name, description=group.description, entries=entries
    )


@transaction.atomic
def delete_resource_group(*, actor: User | None, group: ResourceGroup, although_used: bool = False) -> None:
    """Delete a resource group.

    With `although_used` the assignments that are limited to it are removed, which needs the permissions to
    remove each. Without, a group in use raises `ValidationError`.
    """
    require_permission(actor, "core_resourcegroup_delete", group.scope)
    # From here on, nobody can limit a role to it.
    lock_row(group)
    if although_used:
        remove_assignments(actor, group.assignments.all())
    if group.assignments.exists():
        raise ValidationError("Role assignments use this resource group. Remove them first.", code="state")
    before = _build_audit_values(group, _entries(group))
    audit.record_audit_entry(actor=actor, action="resourcegroup.delete", thing=group, before=before)
    group.delete()


def _validate_entries(entries: Iterable[ResourceGroupEntrySpec]) -> set[ResourceGroupEntrySpec]:
    entry_set = set(entries)
    if len(entry_set) > RESOURCE_GROUP_ENTRIES:
        raise ValidationError({"entries": f"A resource group can have at most {RESOURCE_GROUP_ENTRIES}."})
    for resource, identifier in sorted(entry_set):
        try:
            ResourceGroupEntry(resource=resource, identifier=identifier).clean_fields(exclude=["group"])
        except ValidationError as exc:
            raise ValidationError({"entries": exc.messages}) from exc
    return entry_set


def _entries(group: ResourceGroup) -> set[ResourceGroupEntrySpec]:
    return set(group.entries.values_list("resource", "identifier"))


def _set_entries(group: ResourceGroup, entries: set[ResourceGroupEntrySpec]) -> None:
    present = {(entry.resource, entry.identifier): entry.pk for entry in group.entries.all()}
    removed = [pk for entry, pk in present.items() if entry not in entries]
    group.entries.filter(pk__in=removed).delete()
    ResourceGroupEntry.objects.bulk_create(
        ResourceGroupEntry(group=group, resource=resource, identifier=identifier)
        for resource, identifier in sorted(entries - set(present))
    )


def _build_audit_values(group: ResourceGroup, entries: set[ResourceGroupEntrySpec]) -> dict[str, Any]:
    listed = [f"{resource}: {identifier or 'all'}" for resource, identifier in sorted(entries)]
    return {
        "identifier": group.identifier,
        "name": group.name,
        "description": group.description,
        "entries": listed,
    }
