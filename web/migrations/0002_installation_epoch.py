import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("web", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="InstallationEpoch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("history", models.UUIDField(default=uuid.uuid4)),
                ("previous_history", models.UUIDField(null=True)),
                ("number", models.PositiveBigIntegerField(default=0)),
                ("advanced_at", models.DateTimeField()),
                ("restored_at", models.DateTimeField(null=True)),
                ("restored_from", models.DateTimeField(null=True)),
                ("was_detected", models.BooleanField(default=False)),
            ],
        ),
    ]
