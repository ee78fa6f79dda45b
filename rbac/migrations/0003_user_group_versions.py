"""Versions of user groups, by which two editors do not overwrite each other."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rbac", "0002_role_versions")]

    operations = [
        migrations.AddField(
            model_name="usergroup",
            name="version",
            field=models.PositiveIntegerField(db_default=1, default=1, editable=False),
        ),
    ]
