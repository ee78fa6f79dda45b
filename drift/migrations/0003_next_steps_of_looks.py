from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("drift", "0002_what_a_pair_needs")]

    operations = [
        migrations.AddField(
            model_name="comparedcluster",
            name="failure_code",
            field=models.CharField(blank=True, default="", max_length=128),
        ),
        migrations.AddField(
            model_name="comparedcluster",
            name="failure_step",
            field=models.TextField(blank=True, default=""),
        ),
    ]
