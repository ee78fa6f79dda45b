"""Rules for migrations of a release that runs beside the one before it: expand first, contract later."""

from collections.abc import Iterator
from typing import Any

from django.db import models
from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.state import ProjectState
from django.db.models.fields import NOT_PROVIDED

# What the release before still reads or writes, unless it says since when nobody does.
CONTRACTING = (ops.RemoveField, ops.DeleteModel, ops.RenameField, ops.RenameModel, ops.AlterModelTable)
UNUSED_SINCE = "unused_since"


def find_problems(migration: Migration, version: str, before: ProjectState | None = None) -> Iterator[str]:
    """Yield what would break the release before `version` while both run on one database.

    A migration that removes or renames names the version since which no code uses it, in its attribute
    `unused_since`; that must be an earlier one. With the state `before` the migration, changes that leave the
    column as it is, such as another choice or an index, are none.
    """
    since = getattr(migration, UNUSED_SINCE, "")
    may_contract = bool(since) and _parse(since) < _parse(version)
    for operation in migration.operations:
        if isinstance(operation, CONTRACTING) and not may_contract:
            yield (
                f"{operation.describe()}: the release before still uses it. Stop using it in one "
                f"release, and do this in the next one, with {UNUSED_SINCE} = that version."
            )
        if isinstance(operation, ops.AddField) and not _may_be_left_out(operation.field):
            yield (
                f"{operation.describe()}: the release before inserts rows without it. "
                "Make it null, or give it a db_default."
            )
        is_stricter = isinstance(operation, ops.AlterField) and not operation.field.null
        if is_stricter and not may_contract and not _keeps_column(operation, migration.app_label, before):
            yield (
                f"{operation.describe()}: rows of the release before may not fit. Widen it only, and "
                f"name with {UNUSED_SINCE} the version since which no code writes what it refuses."
            )


def _keeps_column(operation: Any, app_label: str, before: ProjectState | None) -> bool:
    """Return whether a field differs only in its index, or in what the database does not know."""
    if before is None:
        return False
    former = before.models[app_label, operation.model_name_lower].fields[operation.name]
    return _describe_column(former) == _describe_column(operation.field)


def _describe_column(field: models.Field) -> tuple[Any, ...]:  # type: ignore[type-arg]
    _, path, arguments, options = field.deconstruct()
    # Rows fit with an index and without; Django lists what the database does not know.
    unrelated = {*field.non_db_attrs, "db_index"}
    known = {name: value for name, value in options.items() if name not in unrelated}
    return path, arguments, known


def _may_be_left_out(field: models.Field) -> bool:  # type: ignore[type-arg]
    return field.null or field.many_to_many or field.db_default is not NOT_PROVIDED or field.generated


def _parse(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
