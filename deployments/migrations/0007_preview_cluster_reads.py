from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0006_delegate_upgrade_windows"),
    ]

    operations = [
        migrations.AddField(
            model_name="previewrequest",
            name="reads_cluster",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
