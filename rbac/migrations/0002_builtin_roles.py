"""Fills in the account scope and the built-in roles."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from rbac.roles import ensure_builtin_roles


def fill_in(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    ensure_builtin_roles(apps)


class Migration(migrations.Migration):
    dependencies = [("rbac", "0001_initial")]

    operations = [migrations.RunPython(fill_in, migrations.RunPython.noop)]
