"""Every saved version of a pipeline, which of them an execution froze, and pipelines that are gone."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0002_variables"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PipelineVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("yaml", models.TextField()),
                ("saved_at", models.DateTimeField()),
                (
                    "pipeline",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="deployments.pipeline",
                    ),
                ),
                (
                    "saved_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="pipelineversion",
            constraint=models.UniqueConstraint(
                fields=("pipeline", "number"), name="pipeline_version_number_unique"
            ),
        ),
        migrations.AddField(
            model_name="execution",
            name="pipeline_version",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="pipeline",
            name="deleted_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.RemoveConstraint(model_name="pipeline", name="pipeline_identifier_unique_in_scope"),
        migrations.AddConstraint(
            model_name="pipeline",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None)),
                fields=("scope", "identifier"),
                name="pipeline_identifier_unique_in_scope",
            ),
        ),
    ]
