"""Tags of delegates and instances as rows, so that an index finds the delegates with a tag."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from django.db import models

from rbac.models import Scope

if TYPE_CHECKING:
    from delegates.models.delegates import Delegate
    from delegates.models.instances import DelegateInstance

# The tag that stands for a single delegate, see `build_own_tag`.
OWN_TAG: Final = re.compile(r"delegate (0|[1-9][0-9]{0,17})")


def fold_tag(tag: object) -> str:
    """Return a tag or selector in the form that is compared: without regard to case."""
    return str(tag).casefold()


def fold_tags(tags: Iterable[object]) -> frozenset[str]:
    """Return the distinct tags for comparison; no one can claim the tag of a single delegate."""
    return frozenset(tag for tag in map(fold_tag, tags) if not OWN_TAG.fullmatch(tag))


class DelegateTag(models.Model):
    """One tag of a delegate, or of one of its instances, as selectors are compared with it.

    The rows repeat `Delegate.tags`, `Delegate.name` and `DelegateInstance.tags`; `save` of those models
    writes them through `write_tags`.
    """

    SCOPE_PATH: ClassVar[str] = "delegate__scope"

    # The scope of the delegate, which never changes.
    scope = models.ForeignKey(Scope, on_delete=models.CASCADE, related_name="+", db_index=False)
    delegate = models.ForeignKey(
        "delegates.Delegate", on_delete=models.CASCADE, related_name="tag_rows", db_index=False
    )
    # Null for the name and the tags that users set.
    instance = models.ForeignKey(
        "delegates.DelegateInstance",
        on_delete=models.CASCADE,
        null=True,
        related_name="tag_rows",
        db_index=False,
    )
    # A name of 128 characters may become longer in this form.
    tag = models.CharField(max_length=512)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["delegate", "tag"],
                condition=models.Q(instance__isnull=True),
                name="delegate_tag_unique",
            ),
            models.UniqueConstraint(fields=["instance", "tag"], name="delegate_tag_of_instance_unique"),
        ]
        indexes = [
            models.Index(fields=["scope", "tag", "delegate"], name="delegate_tag_in_scope"),
            models.Index(fields=["delegate", "tag", "instance"], name="delegate_tag_of_delegate"),
        ]

    def __str__(self) -> str:
        return self.tag


def build_tags(delegate: "Delegate", instance: "DelegateInstance | None" = None) -> list[DelegateTag]:
    """Return the rows of a delegate, or of one of its instances, for owners that `save` does not store."""
    tags = fold_tags([*delegate.tags, delegate.name] if instance is None else instance.tags)
    return [
        DelegateTag(scope_id=delegate.scope_id, delegate=delegate, instance=instance, tag=tag)
        for tag in sorted(tags)
    ]


def write_tags(delegate: "Delegate", instance: "DelegateInstance | None" = None) -> None:
    """Store the tags of a delegate, or of one of its instances; the caller has locked that row."""
    expected = build_tags(delegate, instance)
    rows = DelegateTag.objects.filter(delegate=delegate, instance=instance)
    stored = set(rows.values_list("tag", flat=True))
    if obsolete := stored - {row.tag for row in expected}:
        rows.filter(tag__in=obsolete).delete()
    DelegateTag.objects.bulk_create(row for row in expected if row.tag not in stored)


def includes_any(model: models.Model, names: set[str], update_fields: Iterable[str] | None) -> bool:
    """Return whether `save` with these fields writes one of the named ones."""
    written = names - model.get_deferred_fields() if update_fields is None else names & {*update_fields}
    return bool(written)
