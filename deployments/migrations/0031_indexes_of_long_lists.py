from django.db import migrations, models

TERMINAL = (
    "SUCCESS",
    "FAILED",
    "ABORTED",
    "EXPIRED",
    "SKIPPED",
    "APPROVAL_REJECTED",
    "IGNORE_FAILED",
    "ROLLED_BACK",
)


class Migration(migrations.Migration):
    dependencies = [("deployments", "0030_applied_configurations")]

    operations = [
        migrations.RemoveIndex(model_name="execution", name="execution_ended"),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)),
                fields=[
                    "ended_at",
                    "status",
                    "outcome",
                    "pipeline",
                    "scope",
                    "created_at",
                    "started_at",
                    "id",
                ],
                name="execution_ended",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("status__in", TERMINAL), _negated=True),
                fields=["scope"],
                name="execution_open_in_scope",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(fields=["-asked_at", "-id"], name="approval_newest"),
        ),
        migrations.AddIndex(
            model_name="stageexecution",
            index=models.Index(
                condition=models.Q(("status__in", TERMINAL), _negated=True),
                fields=["service", "-id"],
                name="stage_open_of_service",
            ),
        ),
    ]
