"""The tables of pipelines."""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("rbac", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Pipeline",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                (
                                    "Use up to 128 letters, digits, underscores and dollar signs, starting "
                                    "with a letter or underscore."
                                ),
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("description", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("yaml", models.TextField()),
                ("next_number", models.PositiveIntegerField(default=1)),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="rbac.scope"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="InputSet",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                (
                                    "Use up to 128 letters, digits, underscores and dollar signs, starting "
                                    "with a letter or underscore."
                                ),
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("description", models.TextField(blank=True, default="")),
                ("inputs", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("runs", models.PositiveIntegerField(default=0)),
                ("last_run_at", models.DateTimeField(blank=True, null=True)),
                (
                    "pipeline",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="input_sets",
                        to="pipelines.pipeline",
                    ),
                ),
            ],
        ),
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
                        to="pipelines.pipeline",
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
            model_name="pipeline",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None)),
                fields=("scope", "identifier"),
                name="pipeline_identifier_unique_in_scope",
            ),
        ),
        migrations.AddConstraint(
            model_name="inputset",
            constraint=models.UniqueConstraint(
                fields=("pipeline", "identifier"), name="input_set_identifier_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="pipelineversion",
            constraint=models.UniqueConstraint(
                fields=("pipeline", "number"), name="pipeline_version_number_unique"
            ),
        ),
    ]
