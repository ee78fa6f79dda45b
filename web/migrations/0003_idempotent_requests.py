import uuid

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import rbac.encrypted_fields


class Migration(migrations.Migration):
    dependencies = [
        ("web", "0002_installation_epoch"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="IdempotentRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("caller", models.CharField(max_length=64)),
                ("method", models.CharField(max_length=8)),
                ("path", models.CharField(max_length=400)),
                ("key", models.CharField(max_length=128)),
                ("content", rbac.encrypted_fields.EncryptedTextField(editable=False)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["created_at"], name="idempotent_request_age")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("caller", "key", "method", "path"), name="idempotent_request_unique"
                    )
                ],
            },
        ),
    ]
