"""The tables of the catalog."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("connectors", "0001_initial"),
        ("rbac", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Environment",
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
                (
                    "kind",
                    models.CharField(
                        choices=[("Production", "Production"), ("PreProduction", "Pre-production")],
                        default="PreProduction",
                        max_length=20,
                    ),
                ),
                ("variables", models.JSONField(blank=True, default=dict)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="rbac.scope"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Infrastructure",
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
                ("region", models.CharField(max_length=255)),
                ("cluster", models.CharField(max_length=255)),
                ("is_dynamic", models.BooleanField(default=False)),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "connector",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="infrastructures",
                        to="connectors.connector",
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="infrastructures",
                        to="catalog.environment",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Service",
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
                ("variables", models.JSONField(blank=True, default=dict)),
                ("required_variables", models.JSONField(blank=True, default=list)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="rbac.scope"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Manifest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("identifier", models.CharField(max_length=128)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("EcsTaskDefinition", "Task definition"),
                            ("EcsServiceDefinition", "Service definition"),
                            ("EcsScalableTargetDefinition", "Scalable target"),
                            ("EcsScalingPolicyDefinition", "Scaling policy"),
                        ],
                        max_length=40,
                    ),
                ),
                ("store", models.CharField(default="FileStore", max_length=40)),
                ("paths", models.JSONField(blank=True, default=list)),
                ("content", models.TextField(blank=True, default="")),
                ("place", models.JSONField(blank=True, default=dict)),
                (
                    "service",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="manifests",
                        to="catalog.service",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Artifact",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("image", models.CharField(max_length=512)),
                ("tag", models.CharField(default="latest", max_length=128)),
                ("source", models.JSONField(blank=True, default=dict)),
                (
                    "service",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="artifact",
                        to="catalog.service",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ServiceOverride",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("variables", models.JSONField(blank=True, default=dict)),
                ("manifests", models.JSONField(blank=True, default=list)),
                ("version", models.PositiveIntegerField(default=1)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="overrides",
                        to="catalog.environment",
                    ),
                ),
                (
                    "infrastructure",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="overrides",
                        to="catalog.infrastructure",
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="overrides",
                        to="catalog.service",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="environment",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="environment_identifier_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="infrastructure",
            constraint=models.UniqueConstraint(
                fields=("environment", "identifier"), name="infrastructure_identifier_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="service",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="service_identifier_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="manifest",
            constraint=models.UniqueConstraint(
                fields=("service", "identifier"), name="manifest_identifier_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="serviceoverride",
            constraint=models.UniqueConstraint(
                condition=models.Q(("infrastructure", None)),
                fields=("environment", "service"),
                name="override_of_a_service_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="serviceoverride",
            constraint=models.UniqueConstraint(
                condition=models.Q(("infrastructure__isnull", False)),
                fields=("infrastructure", "service"),
                name="override_in_an_infrastructure_unique",
            ),
        ),
    ]
