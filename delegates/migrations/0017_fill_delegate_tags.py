"""Store the tags of existing delegates and instances as rows."""

import re
from collections.abc import Iterable
from typing import Any

from django.db import migrations

BATCH = 1000
OWN_TAG = re.compile(r"delegate (0|[1-9][0-9]{0,17})")


def fold_tags(tags: Iterable[object]) -> set[str]:
    """Return the tags as they are compared."""
    return {tag for tag in (str(tag).casefold() for tag in tags) if not OWN_TAG.fullmatch(tag)}


def fill_tags(apps: Any, schema_editor: Any) -> None:
    """Store a row for each tag; rows that exist stay."""
    model = apps.get_model("delegates", "DelegateTag")
    rows: list[Any] = []
    for scope, delegate, instance, tags in _iterate_owners(apps):
        rows += [
            model(scope_id=scope, delegate_id=delegate, instance_id=instance, tag=tag)
            for tag in sorted(fold_tags(tags))
        ]
        if len(rows) >= BATCH:
            model.objects.bulk_create(rows, ignore_conflicts=True)
            rows = []
    model.objects.bulk_create(rows, ignore_conflicts=True)


def _iterate_owners(apps: Any) -> Iterable[tuple[int, int, int | None, list[Any]]]:
    """Yield scope, delegate, instance and tags of each delegate and instance."""
    delegates = apps.get_model("delegates", "Delegate").objects
    for pk, scope, name, tags in delegates.values_list("pk", "scope_id", "name", "tags"):
        yield scope, pk, None, [*tags, name]
    instances = apps.get_model("delegates", "DelegateInstance").objects.exclude(tags=[])
    for pk, delegate, scope, tags in instances.values_list("pk", "delegate_id", "delegate__scope_id", "tags"):
        yield scope, delegate, pk, tags


class Migration(migrations.Migration):
    dependencies = [("delegates", "0016_delegate_tags")]

    operations = [migrations.RunPython(fill_tags, migrations.RunPython.noop, elidable=True)]
