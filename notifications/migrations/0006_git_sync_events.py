"""Events of Git syncs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0005_commit_statuses"),
    ]

    operations = [
        # Choices are known to Python only: no column changes.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="notification",
                    name="event",
                    field=models.CharField(
                        choices=[
                            ("execution.started", "Execution started"),
                            ("execution.failed", "Execution failed"),
                            ("execution.succeeded", "Execution succeeded"),
                            ("execution.aborted", "Execution aborted"),
                            ("rollback.started", "Rollback started"),
                            ("rollback.ended", "Rollback completed"),
                            ("approval.waiting", "Approval waiting"),
                            ("intervention.waiting", "Manual intervention waiting"),
                            ("drift.found", "Drift detected"),
                            ("drift.gone", "Drift resolved"),
                            ("delegate.disconnected", "Delegate disconnected"),
                            ("delegate.connected", "Delegate connected"),
                            ("gitsync.failed", "Git sync failed"),
                            ("gitsync.recovered", "Git sync recovered"),
                            ("test", "Test"),
                            ("digest", "Digest"),
                        ],
                        max_length=32,
                    ),
                ),
            ],
        ),
    ]
