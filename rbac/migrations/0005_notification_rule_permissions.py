"""Lets the built-in roles have what the catalogue says of notification rules."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from rbac.roles import ensure_builtin_roles


def fill_in(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    ensure_builtin_roles(apps)


class Migration(migrations.Migration):
    dependencies = [("rbac", "0004_append_only_audit_trail")]

    operations = [migrations.RunPython(fill_in, migrations.RunPython.noop)]
