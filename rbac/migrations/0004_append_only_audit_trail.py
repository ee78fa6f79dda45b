"""Makes the audit trail append-only in the database itself, and lets its filters find their way."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from rbac.append_only import triggers_to_add, triggers_to_drop


def add_triggers(apps: Any, schema_editor: Any) -> None:
    for statement in triggers_to_add(schema_editor.connection):
        schema_editor.execute(statement)


def drop_triggers(apps: Any, schema_editor: Any) -> None:
    for statement in triggers_to_drop(schema_editor.connection):
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ("rbac", "0003_resource_groups_service_accounts_invitations"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="actor",
            field=models.ForeignKey(
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="audit_entries",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["actor_name", "id"], name="audit_by_actor"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["thing_type", "thing_id", "id"], name="audit_by_thing"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["request_id"], name="audit_by_request"),
        ),
        # Last of all: SQLite makes a table anew to alter it, and a new table has no triggers.
        migrations.RunPython(add_triggers, drop_triggers),
    ]
