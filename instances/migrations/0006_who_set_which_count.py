"""What is asked for by region, and the counts that changed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("instances", "0005_what_services_use"),
    ]

    operations = [
        migrations.AddField(
            model_name="seenservice",
            name="usage_asked_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="seenevent",
            name="before",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="seenevent",
            name="kind",
            field=models.CharField(
                choices=[("ECS", "ECS"), ("SCALING", "Auto scaling"), ("COUNT", "Desired count")],
                default="ECS",
                max_length=16,
            ),
        ),
    ]
