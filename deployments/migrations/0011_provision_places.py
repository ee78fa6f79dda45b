"""Environments and states of applied configurations and plans."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0010_database_clock"),
    ]

    operations = [
        migrations.AddField(
            model_name="appliedconfiguration",
            name="place",
            field=models.CharField(blank=True, db_default="", default="", max_length=768),
        ),
        migrations.AddField(
            model_name="appliedconfiguration",
            name="state_key",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="storedplan",
            name="place",
            field=models.CharField(blank=True, db_default="", default="", max_length=768),
        ),
    ]
