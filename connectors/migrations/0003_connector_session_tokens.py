"""Session tokens of the temporary access keys of connectors."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("connectors", "0002_secret_references"),
    ]

    operations = [
        migrations.AddField(
            model_name="connector",
            name="session_token",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="token_connectors",
                to="connectors.secret",
            ),
        ),
    ]
