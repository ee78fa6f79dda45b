"""Versions of roles and resource groups, by which two editors do not overwrite each other."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rbac", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="role",
            name="version",
            field=models.PositiveIntegerField(db_default=1, default=1, editable=False),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="version",
            field=models.PositiveIntegerField(db_default=1, default=1, editable=False),
        ),
    ]
