"""Lets each step of a stage queue for an ECS service of its own."""

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def claim(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """What a stage held, or waited for, becomes the claim of the step that is or was first to want it."""
    claims, steps = apps.get_model("deployments", "SlotClaim"), apps.get_model("deployments", "StepExecution")
    slots = apps.get_model("deployments", "Slot")
    stages = apps.get_model("deployments", "StageExecution").objects.exclude(slot_key="")
    for stage in stages.exclude(slot_wanted_at=None).iterator(chunk_size=500):
        forward = steps.objects.filter(stage=stage, section="EXECUTION").order_by("position")
        step = forward.filter(status__in=("RUNNING", "ASYNC_WAITING")).first() or forward.first()
        if step is None:
            continue
        waits = (
            stage.status == "QUEUED" and not slots.objects.filter(key=stage.slot_key, stage=stage).exists()
        )
        claims.objects.create(
            stage=stage,
            step=step,
            key=stage.slot_key,
            ecs_service=stage.ecs_service,
            wanted_at=stage.slot_wanted_at,
            held_at=None if waits else stage.slot_wanted_at,
        )


class Migration(migrations.Migration):
    dependencies = [("deployments", "0025_input_set_runs")]

    operations = [
        migrations.CreateModel(
            name="SlotClaim",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=512)),
                ("ecs_service", models.CharField(max_length=255)),
                ("wanted_at", models.DateTimeField()),
                ("held_at", models.DateTimeField(null=True)),
                (
                    "stage",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="claims",
                        to="deployments.stageexecution",
                    ),
                ),
                (
                    "step",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="claims",
                        to="deployments.stepexecution",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["key"], name="slot_claim_key")],
                "constraints": [models.UniqueConstraint(fields=("step", "key"), name="slot_claim_unique")],
            },
        ),
        migrations.RunPython(claim, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="stageexecution", name="stage_slot_key"),
        migrations.RemoveField(model_name="stageexecution", name="slot_key"),
        migrations.RemoveField(model_name="stageexecution", name="slot_wanted_at"),
    ]
