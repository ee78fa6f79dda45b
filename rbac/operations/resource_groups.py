"""What a person can do to resource groups."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from guards.limits import RESOURCE_GROUP_ENTRIES
from rbac import audit
from rbac.models import ResourceGroup, ResourceGroupEntry, Scope, User
from rbac.operations.asking import refuse_more_than_own_roles, require_of
from rbac.operations.identifiers import identifier_of, save_new

# The kind of a thing and its identifier; an empty one stands for all of the kind.
Entry = tuple[str, str]


@transaction.atomic
def create_resource_group(
    *,
    actor: User | None,
    scope: Scope,
    name: str,
    entries: Iterable[Entry],
    identifier: str = "",
    description: str = "",
) -> ResourceGroup:
    """Add a choice of things that role assignments at `scope` and below can be narrowed to.

    Without an `identifier` it gets one that is made of its name.
    Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    require_of(actor, "core_resourcegroup_edit", scope)
    here = ResourceGroup.objects.filter(scope=scope)
    group = ResourceGroup(scope=scope, name=name, description=description)
    group.identifier = identifier or identifier_of(name, here, "resource_group")
    group.full_clean(validate_constraints=False)
    wanted = _checked(entries)
    save_new(group, ValidationError({"identifier": f"There is a resource group {group.identifier} already."}))
    _set_entries(group, wanted)
    audit.record(actor=actor, action="resourcegroup.create", thing=group, after=_record(group, wanted))
    return group


@transaction.atomic
def update_resource_group(
    *, actor: User | None, group: ResourceGroup, name: str, description: str, entries: Iterable[Entry]
) -> ResourceGroup:
    """Change what a resource group is called and what is in it.

    What is added reaches everybody whose role is narrowed to it: the actor needs all that those roles give.
    """
    require_of(actor, "core_resourcegroup_edit", group.scope)
    wanted, present = _checked(entries), _entries(group)
    if wanted - present:
        refuse_more_than_own_roles(actor, group.assignments.all())
    stored = ResourceGroup.objects.get(pk=group.pk)
    group.name, group.description = name, description
    group.full_clean()
    group.save(update_fields=["name", "description"])
    _set_entries(group, wanted)
    audit.record(
        actor=actor,
        action="resourcegroup.update",
        thing=group,
        before=_record(stored, present),
        after=_record(group, wanted),
    )
    return group


@transaction.atomic
def delete_resource_group(*, actor: User | None, group: ResourceGroup) -> None:
    """Delete a resource group that no assignment is narrowed to."""
    require_of(actor, "core_resourcegroup_delete", group.scope)
    if group.assignments.exists():
        raise ValidationError("Role assignments are narrowed to this resource group. Remove them first.")
    before = _record(group, _entries(group))
    audit.record(actor=actor, action="resourcegroup.delete", thing=group, before=before)
    group.delete()


def _checked(entries: Iterable[Entry]) -> set[Entry]:
    wanted = set(entries)
    if len(wanted) > RESOURCE_GROUP_ENTRIES:
        raise ValidationError({"entries": f"A resource group may have {RESOURCE_GROUP_ENTRIES}."})
    for resource, identifier in sorted(wanted):
        try:
            ResourceGroupEntry(resource=resource, identifier=identifier).clean_fields(exclude=["group"])
        except ValidationError as exc:
            raise ValidationError({"entries": exc.messages}) from exc
    return wanted


def _entries(group: ResourceGroup) -> set[Entry]:
    return set(group.entries.values_list("resource", "identifier"))


def _set_entries(group: ResourceGroup, wanted: set[Entry]) -> None:
    present = {(entry.resource, entry.identifier): entry.pk for entry in group.entries.all()}
    gone = [pk for entry, pk in present.items() if entry not in wanted]
    group.entries.filter(pk__in=gone).delete()
    ResourceGroupEntry.objects.bulk_create(
        ResourceGroupEntry(group=group, resource=resource, identifier=identifier)
        for resource, identifier in sorted(wanted - set(present))
    )


def _record(group: ResourceGroup, entries: set[Entry]) -> dict[str, Any]:
    listed = [f"{resource}: {identifier or 'all'}" for resource, identifier in sorted(entries)]
    return {
        "identifier": group.identifier,
        "name": group.name,
        "description": group.description,
        "entries": listed,
    }
