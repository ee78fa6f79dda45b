"""References of secrets to secret managers, and connectors to Vault."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    # Kinds only get longer and more: rows of every earlier release fit.
    unused_since = "0.0.1"

    dependencies = [
        ("connectors", "0001_initial"),
        ("rbac", "0001_initial"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="connector",
            name="connector_kind_is_known",
        ),
        migrations.RemoveConstraint(
            model_name="secret",
            name="secret_file_has_name",
        ),
        migrations.AddField(
            model_name="secret",
            name="last_read_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="secret",
            name="last_read_by",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=255),
        ),
        migrations.AddField(
            model_name="secret",
            name="last_read_problem",
            field=models.TextField(blank=True, db_default="", default="", editable=False),
        ),
        migrations.AddField(
            model_name="secret",
            name="manager",
            field=models.CharField(blank=True, db_default="", default="", max_length=32),
        ),
        migrations.AddField(
            model_name="secret",
            name="manager_connector",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="referenced_secrets",
                to="connectors.connector",
            ),
        ),
        migrations.AddField(
            model_name="secret",
            name="reference_key",
            field=models.CharField(blank=True, db_default="", default="", max_length=255),
        ),
        migrations.AddField(
            model_name="secret",
            name="reference_path",
            field=models.CharField(blank=True, db_default="", default="", max_length=2048),
        ),
        migrations.AddField(
            model_name="secret",
            name="reference_version",
            field=models.CharField(blank=True, db_default="", default="", max_length=128),
        ),
        migrations.AlterField(
            model_name="connector",
            name="kind",
            field=models.CharField(
                choices=[
                    ("Aws", "AWS"),
                    ("Git", "Git"),
                    ("DockerRegistry", "Docker registry"),
                    ("TerraformCloud", "Terraform Cloud"),
                    ("Vault", "HashiCorp Vault"),
                ],
                default="Aws",
                max_length=32,
            ),
        ),
        migrations.AlterField(
            model_name="secret",
            name="kind",
            field=models.CharField(
                choices=[("Text", "Text"), ("File", "File"), ("Reference", "Reference")],
                default="Text",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="connector",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["Aws", "Git", "DockerRegistry", "TerraformCloud", "Vault"])),
                name="connector_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("file_name", ""), ("kind__in", ["Text", "Reference"])),
                    models.Q(("kind", "File"), models.Q(("file_name", ""), _negated=True)),
                    _connector="OR",
                ),
                name="secret_file_has_name",
            ),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind", "Reference"),
                        ("manager_connector__isnull", False),
                        ("value", ""),
                        models.Q(("manager", ""), _negated=True),
                        models.Q(("reference_path", ""), _negated=True),
                    ),
                    models.Q(
                        models.Q(("kind", "Reference"), _negated=True),
                        ("manager", ""),
                        ("manager_connector__isnull", True),
                        ("reference_key", ""),
                        ("reference_path", ""),
                        ("reference_version", ""),
                    ),
                    _connector="OR",
                ),
                name="secret_reference_is_complete",
            ),
        ),
    ]
