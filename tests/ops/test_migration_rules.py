"""No migration breaks the release before, which runs beside the new one during an upgrade."""

from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState

from tests.ops.migration_rules import find_problems


def migration(*operations: Operation, **attributes: str) -> migrations.Migration:
    sample = migrations.Migration("0002_sample", "deployments")
    sample.operations = list(operations)
    for name, value in attributes.items():
        setattr(sample, name, value)
    return sample


def problems(*operations: Operation, **attributes: str) -> list[str]:
    return list(find_problems(migration(*operations, **attributes), "0.3.0"))


def state_before(loader: MigrationLoader, later: migrations.Migration) -> ProjectState | None:
    """Return the state before a migration that changes a field; others need none."""
    if not any(isinstance(operation, migrations.AlterField) for operation in later.operations):
        return None
    state: ProjectState = loader.project_state((later.app_label, later.name), at_end=False)
    return state


def test_no_migration_of_a_later_release_breaks_the_one_before() -> None:
    ours = {app.label for app in apps.get_app_configs() if Path(app.path).parent == settings.ROOT}
    loader = MigrationLoader(None)
    found = {
        f"{app}.{name}": problems
        for (app, name), later in loader.disk_migrations.items()
        # The first one of an app makes tables that no other release knows.
        if app in ours and not later.initial
        if (problems := list(find_problems(later, settings.SLIPWAY_VERSION, state_before(loader, later))))
    }
    assert "deployments" in ours
    assert found == {}


@pytest.mark.parametrize(
    "operation",
    [
        migrations.RemoveField("execution", "yaml"),
        migrations.RenameField("execution", "yaml", "text"),
        migrations.RenameModel("Execution", "Run"),
        migrations.DeleteModel("Execution"),
    ],
)
def test_what_is_removed_or_renamed_was_unused_in_the_release_before(operation: Operation) -> None:
    assert "the release before still uses it" in problems(operation)[0]
    assert problems(operation, unused_since="0.3.0")
    assert not problems(operation, unused_since="0.2.0")


@pytest.mark.parametrize(
    ("field", "is_refused"),
    [
        (models.TextField(), True),
        (models.TextField(default=""), True),
        (models.TextField(null=True), False),
        (models.TextField(db_default=""), False),
    ],
)
def test_a_new_column_may_be_left_out_by_the_release_before(
    field: models.Field,  # type: ignore[type-arg]
    is_refused: bool,
) -> None:
    assert bool(problems(migrations.AddField("execution", "note", field))) == is_refused


def test_a_column_that_gets_stricter_was_written_right_before() -> None:
    stricter = migrations.AlterField("execution", "yaml", models.CharField(max_length=10))
    assert "may not fit" in problems(stricter)[0]
    assert not problems(stricter, unused_since="0.2.0")


@pytest.mark.parametrize(
    ("changed", "is_refused"),
    [
        ({"choices": [("A", "A"), ("B", "B")], "max_length": 8}, False),
        ({"choices": [("A", "A")], "max_length": 8, "db_index": True}, False),
        ({"choices": [("A", "A")], "max_length": 4}, True),
        ({"choices": [("A", "A")], "max_length": 8, "unique": True}, True),
    ],
)
def test_another_choice_or_an_index_leaves_a_column_as_it_is(
    changed: dict[str, Any], is_refused: bool
) -> None:
    former = models.CharField(choices=[("A", "A")], max_length=8)
    before = ProjectState()
    before.add_model(ModelState("deployments", "Execution", [("kind", former)]))
    later = migration(migrations.AlterField("execution", "kind", models.CharField(**changed)))
    assert bool(list(find_problems(later, "0.3.0", before))) == is_refused
