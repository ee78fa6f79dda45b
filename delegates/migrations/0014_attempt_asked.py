from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("delegates", "0013_instance_public_key")]

    operations = [
        migrations.AddField(
            model_name="taskattempt",
            name="asked",
            field=models.CharField(blank=True, default="", max_length=128),
        ),
    ]
