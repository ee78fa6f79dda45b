"""Gives every installation its account id, its primary configuration and its built-in delegate."""

from typing import Any

from django.db import migrations

from delegates.beginnings import ensure_first_rows


def begin(apps: Any, _schema_editor: Any) -> None:
    ensure_first_rows(apps)


class Migration(migrations.Migration):
    dependencies = [("delegates", "0001_initial"), ("rbac", "0002_builtin_roles")]

    operations = [migrations.RunPython(begin, migrations.RunPython.noop)]
