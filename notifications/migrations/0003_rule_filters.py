"""Filters of notification rules."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0002_channel_kinds"),
    ]

    operations = [
        migrations.AddField(
            model_name="notificationrule",
            name="filters",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
