import django.db.models.deletion
from django.db import migrations, models

import connectors.encryption


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0031_indexes_of_long_lists"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptText",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64, unique=True)),
                ("text", connectors.encryption.EncryptedTextField(blank=True)),
                ("bytes", models.PositiveIntegerField()),
                ("used_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["used_at"], name="kept_text_by_age")],
            },
        ),
        migrations.CreateModel(
            name="KeptTextUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "stage",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_texts",
                        to="deployments.stageexecution",
                    ),
                ),
                (
                    "text",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="uses",
                        to="deployments.kepttext",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("stage", "text"), name="kept_text_once_in_stage")
                ],
            },
        ),
    ]
