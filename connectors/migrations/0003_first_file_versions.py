"""Begins the history of every file that is there already, at its current version."""

from typing import Any

from django.db import migrations

AT_ONCE = 500


def begin(apps: Any, _editor: Any) -> None:
    nodes = apps.get_model("connectors", "FileNode").objects.filter(is_folder=False, versions=None)
    version_model = apps.get_model("connectors", "FileVersion")
    rows = (
        version_model(
            node=node,
            version=node.version,
            content=node.content,
            by_id=node.updated_by_id,
            at=node.updated_at,
        )
        for node in nodes.iterator(chunk_size=AT_ONCE)
    )
    version_model.objects.bulk_create(rows, batch_size=AT_ONCE)


class Migration(migrations.Migration):
    dependencies = [("connectors", "0002_file_version")]

    operations = [migrations.RunPython(begin, migrations.RunPython.noop)]
