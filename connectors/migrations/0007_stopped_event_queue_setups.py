"""Set-ups of event queues that a user stopped."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("connectors", "0006_event_queue_setups_through_delegates")]

    operations = [
        migrations.AlterField(
            model_name="eventqueuesetup",
            name="status",
            field=models.CharField(
                choices=[
                    ("RUNNING", "In progress"),
                    ("SUCCEEDED", "Complete"),
                    ("FAILED", "Failed"),
                    ("STOPPED", "Stopped"),
                ],
                default="RUNNING",
                max_length=16,
            ),
        ),
    ]
