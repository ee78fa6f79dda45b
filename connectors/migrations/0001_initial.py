"""The tables of connectors, secrets and files."""

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import rbac.encrypted_fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("rbac", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="FileDeletion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.CharField(max_length=1024)),
                ("is_folder", models.BooleanField(default=False)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="file_deletions",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="FileNode",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.CharField(max_length=1024)),
                ("is_folder", models.BooleanField(default=False)),
                ("content", models.TextField(blank=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "deletion",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="nodes",
                        to="connectors.filedeletion",
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="files", to="rbac.scope"
                    ),
                ),
                (
                    "updated_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="FileVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("content", models.TextField(blank=True)),
                ("note", models.CharField(blank=True, max_length=200)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="connectors.filenode",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Secret",
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
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                (
                    "kind",
                    models.CharField(
                        choices=[("Text", "Text"), ("File", "File")], default="Text", max_length=8
                    ),
                ),
                ("file_name", models.CharField(blank=True, max_length=255)),
                ("value", rbac.encrypted_fields.EncryptedTextField()),
                ("version", models.PositiveIntegerField(default=1)),
                ("rotated_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="secrets", to="rbac.scope"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Connector",
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
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("Aws", "AWS"),
                            ("Git", "Git"),
                            ("DockerRegistry", "Docker registry"),
                            ("TerraformCloud", "Terraform Cloud"),
                        ],
                        default="Aws",
                        max_length=32,
                    ),
                ),
                ("spec", models.JSONField(blank=True, default=dict)),
                ("last_tested_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("last_test_ok", models.BooleanField(blank=True, editable=False, null=True)),
                ("last_test_message", models.TextField(blank=True, editable=False)),
                ("last_test_report", models.JSONField(blank=True, default=dict, editable=False)),
                ("host_key", models.JSONField(blank=True, default=dict, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="connectors",
                        to="rbac.scope",
                    ),
                ),
                (
                    "secret",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="connectors",
                        to="connectors.secret",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="filedeletion",
            index=models.Index(fields=["scope", "at"], name="file_deletion_by_age"),
        ),
        migrations.AddConstraint(
            model_name="filenode",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deletion", None)),
                fields=("scope", "path"),
                name="file_path_unique_in_scope",
            ),
        ),
        migrations.AddConstraint(
            model_name="filenode",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("path__startswith", "/"), models.Q(("path__endswith", "/"), _negated=True)
                ),
                name="file_path_is_absolute",
            ),
        ),
        migrations.AddConstraint(
            model_name="filenode",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_folder", False), ("content", ""), _connector="OR"),
                name="file_folder_has_no_content",
            ),
        ),
        migrations.AddConstraint(
            model_name="fileversion",
            constraint=models.UniqueConstraint(
                fields=("node", "version"), name="file_version_unique_in_file"
            ),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.UniqueConstraint(fields=("scope", "identifier"), name="secret_unique_in_scope"),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.CheckConstraint(
                condition=models.Q(("identifier__regex", "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z")),
                name="secret_identifier_is_valid",
            ),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("file_name", ""), ("kind", "Text")),
                    models.Q(("kind", "File"), models.Q(("file_name", ""), _negated=True)),
                    _connector="OR",
                ),
                name="secret_file_has_name",
            ),
        ),
        migrations.AddConstraint(
            model_name="connector",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="connector_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="connector",
            constraint=models.CheckConstraint(
                condition=models.Q(("identifier__regex", "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z")),
                name="connector_identifier_is_valid",
            ),
        ),
        migrations.AddConstraint(
            model_name="connector",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["Aws", "Git", "DockerRegistry", "TerraformCloud"])),
                name="connector_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="connector",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("last_test_ok__isnull", True), ("last_tested_at__isnull", True)),
                    models.Q(("last_test_ok__isnull", False), ("last_tested_at__isnull", False)),
                    _connector="OR",
                ),
                name="connector_test_has_moment_and_result",
            ),
        ),
    ]
