"""Replaces the keys of sessions by their hashes; whoever is signed in stays so."""

import hashlib

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

MODELS = (("sessions", "Session"), ("usersessions", "UserSession"))


def hash_keys(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for app, name in MODELS:
        rows = apps.get_model(app, name).objects
        for key in rows.values_list("session_key", flat=True):
            rows.filter(session_key=key).update(session_key=hashlib.sha256(key.encode()).hexdigest()[:40])


class Migration(migrations.Migration):
    dependencies = [
        ("rbac", "0005_notification_rule_permissions"),
        ("sessions", "0001_initial"),
        ("usersessions", "0001_initial"),
    ]

    operations = [migrations.RunPython(hash_keys, migrations.RunPython.noop)]
