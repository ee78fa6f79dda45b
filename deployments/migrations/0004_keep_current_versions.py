"""Keeps the YAML that each pipeline has now as its current version, by nobody known."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def keep(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    versions = apps.get_model("deployments", "PipelineVersion")
    versions.objects.bulk_create(
        versions(pipeline=pipeline, number=pipeline.version, yaml=pipeline.yaml, saved_at=pipeline.updated_at)
        for pipeline in apps.get_model("deployments", "Pipeline").objects.all()
    )


class Migration(migrations.Migration):
    dependencies = [("deployments", "0003_pipeline_versions")]

    operations = [migrations.RunPython(keep, migrations.RunPython.noop)]
