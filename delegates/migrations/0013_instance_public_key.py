from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("delegates", "0012_away_since")]

    operations = [
        migrations.AddField(
            model_name="delegateinstance",
            name="public_key",
            field=models.CharField(blank=True, default="", max_length=44),
        ),
    ]
