"""Channels that report to commits, the start of executions, and the subject of notifications."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0004_digests"),
    ]

    operations = [
        migrations.AddField(
            model_name="notification",
            name="subject",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        # Choices are known to Python only: no column changes.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="notificationrule",
                    name="kind",
                    field=models.CharField(
                        choices=[
                            ("Webhook", "Webhook"),
                            ("Slack", "Slack"),
                            ("Teams", "Microsoft Teams"),
                            ("Email", "E-mail"),
                            ("PagerDuty", "PagerDuty"),
                            ("Opsgenie", "Opsgenie"),
                            ("Discord", "Discord"),
                            ("GoogleChat", "Google Chat"),
                            ("Apprise", "Apprise URL"),
                            ("GitHub", "GitHub"),
                            ("GitLab", "GitLab"),
                        ],
                        default="Webhook",
                        max_length=16,
                    ),
                ),
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
                            ("test", "Test"),
                            ("digest", "Digest"),
                        ],
                        max_length=32,
                    ),
                ),
            ],
        ),
    ]
