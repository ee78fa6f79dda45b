"""Forgets the variables of scripts, secret ones among them, that tasks once kept in place of an environment."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def forget(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """No environment is known for such a task any more; it has ended, or asks for none when it is routed."""
    tasks = apps.get_model("delegates", "DelegateTask")
    # The path of an environment begins with a name; variables were written as a mapping.
    tasks.objects.filter(environment__startswith="{").update(environment="")


class Migration(migrations.Migration):
    dependencies = [("delegates", "0010_inquiries_for_files")]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop, elidable=True)]
