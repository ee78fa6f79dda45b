"""Fill the round-robin order of delegates from their newest tasks."""

from typing import Any

from django.db import migrations
from django.db.models import Max


def fill_last_assigned_at(apps: Any, schema_editor: Any) -> None:
    """Store when the newest task of each delegate was queued."""
    tasks = apps.get_model("delegates", "DelegateTask").objects.filter(instance__isnull=False)
    newest = tasks.values_list("instance__delegate").annotate(Max("queued_at"))
    delegates = apps.get_model("delegates", "Delegate").objects
    for delegate_id, queued_at in newest:
        delegates.filter(pk=delegate_id).update(last_assigned_at=queued_at)


class Migration(migrations.Migration):
    dependencies = [("delegates", "0014_routing_order")]

    operations = [migrations.RunPython(fill_last_assigned_at, migrations.RunPython.noop, elidable=True)]
