from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="execution",
            name="cause",
            field=models.CharField(blank=True, db_default="", default="", max_length=255),
        ),
    ]
