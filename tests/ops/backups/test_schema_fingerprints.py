"""Fingerprints of tables: they change with what the database stores, and with nothing else."""

import pytest
from django.db import models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from ops.backups.schema_fingerprints import compute_schema, fingerprint_state


@pytest.fixture
def state() -> ProjectState:
    """The tables of all migrations."""
    return MigrationLoader(None).project_state()


def list_changed_apps(state: ProjectState) -> list[str]:
    before = fingerprint_state(MigrationLoader(None).project_state())
    after = fingerprint_state(state)
    return [app for app in before if before[app] != after[app]]


def replace_pulse_name(state: ProjectState, field: "models.CharField[str, str]") -> None:
    state.alter_field("deployments", "pulse", "name", field, preserve_default=True)


def test_the_fingerprint_of_an_app_changes_with_its_columns(state: ProjectState) -> None:
    replace_pulse_name(state, models.CharField(max_length=65, unique=True))
    assert list_changed_apps(state) == ["deployments"]


def test_it_changes_with_indexes_and_constraints(state: ProjectState) -> None:
    state.add_index("ops", "serverprocess", models.Index(fields=["pid"], name="by_pid"))
    positive = models.CheckConstraint(condition=models.Q(fence__gte=0), name="fence_positive")
    state.add_constraint("deployments", "execution", positive)
    assert list_changed_apps(state) == ["deployments", "ops"]


def test_it_stays_with_texts_and_defaults_of_forms(state: ProjectState) -> None:
    field = models.CharField(max_length=64, unique=True, default="a", help_text="b", verbose_name="c")
    replace_pulse_name(state, field)
    assert list_changed_apps(state) == []


def test_it_is_that_of_the_given_migrations_and_those_before_them() -> None:
    of_web = compute_schema(["web.0001_initial", "web.0999_of_another_release"])
    assert "web" in of_web
    assert "notifications" not in of_web
