"""Acceptance runs that a restore has ended, and the index by which old runs are found."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ops", "0002_acceptancerun"),
    ]

    operations = [
        # Choices are known to Python only: no column changes.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="acceptancerun",
                    name="status",
                    field=models.CharField(
                        choices=[
                            ("RUNNING", "Running"),
                            ("CLEANING_UP", "Cleaning up"),
                            ("SUCCESS", "Success"),
                            ("FAILED", "Failed"),
                            ("ABORTED", "Canceled"),
                            ("UNKNOWN", "Unknown, restored"),
                        ],
                        default="RUNNING",
                        max_length=16,
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="acceptancerun",
            index=models.Index(fields=["ended_at"], name="acceptance_ended"),
        ),
    ]
