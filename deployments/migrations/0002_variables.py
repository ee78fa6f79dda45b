"""Variables of environments, required ones of services, and a version of infrastructures."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("deployments", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="environment",
            name="variables",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="service",
            name="required_variables",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="infrastructure",
            name="version",
            field=models.PositiveIntegerField(default=1),
        ),
    ]
