"""Time of new executions by the clock of the database."""

from django.db import migrations, models

import web.clock


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0009_execution_scope_index"),
    ]

    operations = [
        # Defaults are known to Python only: no column changes.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="execution",
                    name="created_at",
                    field=models.DateTimeField(default=web.clock.get_database_time, editable=False),
                ),
            ]
        ),
    ]
