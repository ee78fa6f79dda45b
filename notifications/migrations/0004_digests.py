"""Digests of notification rules."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0003_rule_filters"),
    ]

    operations = [
        migrations.AddField(
            model_name="notificationrule",
            name="digest_minutes",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="notificationrule",
            name="next_digest_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="notification",
            name="released_at",
            field=models.DateTimeField(null=True),
        ),
        # Choices are known to Python only: no column changes.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="notification",
                    name="event",
                    field=models.CharField(
                        choices=[
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
                            ("test", "Test"),
                            ("digest", "Digest"),
                        ],
                        max_length=32,
                    ),
                ),
                migrations.AlterField(
                    model_name="notification",
                    name="status",
                    field=models.CharField(
                        choices=[
                            ("WAITING", "Waiting"),
                            ("DELIVERED", "Delivered"),
                            ("FAILED", "Failed"),
                            ("SUMMARIZED", "Summarized"),
                        ],
                        default="WAITING",
                        max_length=16,
                    ),
                ),
            ],
        ),
    ]
