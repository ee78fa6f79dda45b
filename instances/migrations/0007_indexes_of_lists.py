from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("instances", "0006_who_set_which_count")]

    operations = [
        migrations.RemoveIndex(model_name="serviceinstance", name="instance_newest"),
        migrations.AddIndex(
            model_name="serviceinstance",
            index=models.Index(
                condition=models.Q(("stopped_at__isnull", True)),
                fields=["-created_at", "-id"],
                name="instance_newest_live",
            ),
        ),
        migrations.AddIndex(
            model_name="serviceinstance",
            index=models.Index(
                condition=models.Q(("stopped_at__isnull", False)),
                fields=["-created_at", "-id"],
                name="instance_newest_stopped",
            ),
        ),
    ]
