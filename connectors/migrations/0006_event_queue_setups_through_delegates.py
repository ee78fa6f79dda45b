"""Calls of the set-ups of event queues through delegates."""

from django.db import migrations, models

import rbac.encrypted_fields


class Migration(migrations.Migration):
    dependencies = [("connectors", "0005_event_queue_setups")]

    operations = [
        migrations.AddField(
            model_name="eventqueuesetup",
            name="call_task",
            field=models.CharField(blank=True, db_default="", default="", max_length=36),
        ),
        migrations.AddField(
            model_name="eventqueuesetup",
            name="last_task",
            field=models.CharField(blank=True, db_default="", default="", max_length=36),
        ),
        migrations.AddField(
            model_name="eventqueuesetup",
            name="answers",
            field=rbac.encrypted_fields.EncryptedTextField(blank=True, db_default="", default=""),
        ),
    ]
