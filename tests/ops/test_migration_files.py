"""The migrations of this version are read from their files, and none is imported for it."""

import os
import subprocess
import sys

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from ops.migration_files import list_migrations, list_open_migrations

PROGRAM = """
import sys, django
django.setup()
from ops.migration_files import list_migrations
assert len(list_migrations()) > 50
print(*[name for name in sys.modules if ".migrations.0" in name])
"""


def test_the_files_have_the_names_that_django_loads() -> None:
    assert list_migrations() == MigrationLoader(None).disk_migrations.keys()


def test_no_migration_is_imported() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "\n"


@pytest.mark.django_db
def test_what_was_not_applied_is_listed() -> None:
    assert list_open_migrations(connection) == set()
    MigrationRecorder.Migration.objects.filter(app="delegates", name="0001_initial").delete()
    assert list_open_migrations(connection) == {("delegates", "0001_initial")}
