"""The tables of executions."""

import uuid

import django.core.validators
import django.db.models.deletion
import django.db.models.fields.json
from django.conf import settings
from django.db import migrations, models

import rbac.encrypted_fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("catalog", "0001_initial"),
        ("connectors", "0001_initial"),
        ("delegates", "0001_initial"),
        ("pipelines", "0001_initial"),
        ("rbac", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ActionRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("unit", models.CharField(max_length=128)),
                ("name", models.CharField(max_length=64)),
                ("version", models.PositiveIntegerField(default=1)),
                ("parameters", models.JSONField(default=dict)),
                ("title", models.CharField(max_length=255)),
                ("detail", models.CharField(blank=True, default="", max_length=512)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("WAITING", "Waiting"),
                            ("STARTED", "Started"),
                            ("DONE", "Done"),
                            ("FAILED", "Failed"),
                            ("SKIPPED", "Skipped"),
                            ("UNDOING", "Undoing"),
                            ("UNDONE", "Undone"),
                            ("NOT_RESTORED", "Not Restored"),
                        ],
                        default="WAITING",
                        max_length=16,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("first_attempt", models.PositiveIntegerField(default=1)),
                ("start_done_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("consecutive_errors", models.PositiveIntegerField(default=0)),
                (
                    "undo_state",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("KNOWN", "Known"),
                            ("READY", "Ready"),
                            ("SENT", "Sent"),
                            ("SETTLED", "Settled"),
                        ],
                        default="",
                        max_length=16,
                    ),
                ),
                ("undo_attempts", models.PositiveIntegerField(default=0)),
                ("undo_started_at", models.DateTimeField(null=True)),
                ("progress", models.JSONField(default=dict)),
                ("log_cursors", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Pulse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64, unique=True)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Execution",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("number", models.PositiveIntegerField()),
                ("pipeline_version", models.PositiveIntegerField(null=True)),
                ("yaml", models.TextField()),
                ("inputs", models.JSONField(default=dict)),
                ("secret_inputs", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("artifact", models.JSONField(default=dict)),
                (
                    "tag",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.fields.json.KeyTextTransform("tag", "artifact"),
                        output_field=models.TextField(null=True),
                    ),
                ),
                ("force_new_deployment", models.BooleanField(null=True)),
                ("idempotency_key", models.CharField(max_length=128, null=True)),
                ("trace_context", models.JSONField(default=dict)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("ASYNC_WAITING", "Async Waiting"),
                            ("APPROVAL_WAITING", "Approval Waiting"),
                            ("INTERVENTION_WAITING", "Intervention Waiting"),
                            ("INPUT_WAITING", "Input Waiting"),
                            ("PAUSED", "Paused"),
                            ("ROLLING_BACK", "Rolling Back"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("SUCCESS", "Success"),
                            ("FAILED", "Failed"),
                            ("ABORTED", "Aborted"),
                            ("EXPIRED", "Expired"),
                            ("SKIPPED", "Skipped"),
                            ("APPROVAL_REJECTED", "Approval Rejected"),
                            ("IGNORE_FAILED", "Ignore Failed"),
                        ],
                        default="QUEUED",
                        max_length=32,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("COMPLETED", "Completed"),
                            ("FAILED", "Failed"),
                            ("ROLLED_BACK_BY_AWS", "Rolled Back By Aws"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("TIMED_OUT", "Timed Out"),
                            ("SUPERSEDED", "Superseded"),
                            ("ABORTED", "Aborted"),
                        ],
                        default="",
                        max_length=32,
                    ),
                ),
                ("failure", models.JSONField(null=True)),
                ("notes", models.JSONField(blank=True, default=list)),
                ("rolling_back", models.BooleanField(default=False)),
                (
                    "final_status",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("ASYNC_WAITING", "Async Waiting"),
                            ("APPROVAL_WAITING", "Approval Waiting"),
                            ("INTERVENTION_WAITING", "Intervention Waiting"),
                            ("INPUT_WAITING", "Input Waiting"),
                            ("PAUSED", "Paused"),
                            ("ROLLING_BACK", "Rolling Back"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("SUCCESS", "Success"),
                            ("FAILED", "Failed"),
                            ("ABORTED", "Aborted"),
                            ("EXPIRED", "Expired"),
                            ("SKIPPED", "Skipped"),
                            ("APPROVAL_REJECTED", "Approval Rejected"),
                            ("IGNORE_FAILED", "Ignore Failed"),
                        ],
                        default="",
                        max_length=32,
                    ),
                ),
                (
                    "status_before_rollback",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("ASYNC_WAITING", "Async Waiting"),
                            ("APPROVAL_WAITING", "Approval Waiting"),
                            ("INTERVENTION_WAITING", "Intervention Waiting"),
                            ("INPUT_WAITING", "Input Waiting"),
                            ("PAUSED", "Paused"),
                            ("ROLLING_BACK", "Rolling Back"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("SUCCESS", "Success"),
                            ("FAILED", "Failed"),
                            ("ABORTED", "Aborted"),
                            ("EXPIRED", "Expired"),
                            ("SKIPPED", "Skipped"),
                            ("APPROVAL_REJECTED", "Approval Rejected"),
                            ("IGNORE_FAILED", "Ignore Failed"),
                        ],
                        default="",
                        max_length=32,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("next_line_number", models.PositiveBigIntegerField(default=1)),
                ("details_deleted_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("lease_owner", models.CharField(blank=True, default="", max_length=128)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("dispatch_backoff_until", models.DateTimeField(null=True)),
                ("dispatch_token", models.CharField(blank=True, default="", max_length=64)),
                ("batch_key", models.CharField(blank=True, default="", max_length=512)),
                ("restored_at", models.DateTimeField(null=True)),
                ("waits_for_service", models.CharField(blank=True, default="", max_length=255)),
                ("waiting_since", models.DateTimeField(null=True)),
                ("observed_state", models.CharField(blank=True, default="", max_length=32)),
                ("recheck_at", models.DateTimeField(null=True)),
                ("rate_limit_key", models.CharField(blank=True, default="", max_length=160)),
                (
                    "pipeline",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="executions",
                        to="pipelines.pipeline",
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("first_attempt", models.UUIDField(null=True)),
                (
                    "next_attempt",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.execution",
                    ),
                ),
                (
                    "rerun_of",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.execution",
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="rbac.scope"
                    ),
                ),
                (
                    "started_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AwsEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("event_id", models.CharField(max_length=64)),
                ("ecs_service", models.CharField(max_length=512)),
                ("at", models.DateTimeField()),
                ("message", models.TextField()),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="aws_events",
                        to="deployments.execution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="FreezeWindow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                (
                                    "Use up to 128 letters, digits, underscores and dollar signs, starting "
                                    "with a letter or underscore."
                                ),
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("description", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("begins", models.CharField(max_length=16)),
                ("ends", models.CharField(max_length=16)),
                ("weekly", models.BooleanField(default=False)),
                ("services", models.JSONField(blank=True, default=list)),
                ("environments", models.JSONField(blank=True, default=list)),
                (
                    "environment_kind",
                    models.CharField(
                        blank=True,
                        choices=[("Production", "Production"), ("PreProduction", "Pre-production")],
                        default="",
                        max_length=20,
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="rbac.scope"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Interrupt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("ABORT", "Abort"),
                            ("ABORT_AND_ROLL_BACK", "Abort And Roll Back"),
                            ("ROLL_BACK", "Roll Back"),
                            ("RETRY", "Retry"),
                            ("FAIL", "Fail"),
                            ("SKIP", "Skip"),
                            ("IGNORE", "Ignore"),
                            ("MARK_AS_SUCCESS", "Mark As Success"),
                            ("MARK_AS_FAILURE", "Mark As Failure"),
                            ("GO_ON", "Go On"),
                            ("END_UNCHANGED", "End Unchanged"),
                        ],
                        max_length=32,
                    ),
                ),
                ("step", models.CharField(blank=True, default="", max_length=128)),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("applied_at", models.DateTimeField(null=True)),
                ("result", models.CharField(blank=True, default="", max_length=255)),
                (
                    "by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="interrupts",
                        to="deployments.execution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LogChunk",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first", models.PositiveBigIntegerField()),
                ("last", models.PositiveBigIntegerField()),
                ("packed", models.BinaryField()),
                ("is_packed", models.BooleanField(default=False)),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="chunks",
                        to="deployments.execution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PreviewRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("version", models.PositiveIntegerField()),
                ("tag", models.CharField(blank=True, default="", max_length=128)),
                ("inputs", models.JSONField(default=dict)),
                ("requested_at", models.DateTimeField()),
                ("answers", rbac.encrypted_fields.EncryptedTextField(blank=True, default="[]")),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pipeline",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pipelines.pipeline"
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="delegates.delegatetask",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StageExecution",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("identifier", models.CharField(max_length=128)),
                ("name", models.CharField(max_length=128)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("ASYNC_WAITING", "Async Waiting"),
                            ("APPROVAL_WAITING", "Approval Waiting"),
                            ("INTERVENTION_WAITING", "Intervention Waiting"),
                            ("INPUT_WAITING", "Input Waiting"),
                            ("PAUSED", "Paused"),
                            ("ROLLING_BACK", "Rolling Back"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("SUCCESS", "Success"),
                            ("FAILED", "Failed"),
                            ("ABORTED", "Aborted"),
                            ("EXPIRED", "Expired"),
                            ("SKIPPED", "Skipped"),
                            ("APPROVAL_REJECTED", "Approval Rejected"),
                            ("IGNORE_FAILED", "Ignore Failed"),
                        ],
                        default="QUEUED",
                        max_length=32,
                    ),
                ),
                ("region", models.CharField(blank=True, max_length=64)),
                ("cluster", models.CharField(blank=True, max_length=255)),
                ("dynamic_location", models.JSONField(null=True)),
                ("provisioner_step_count", models.PositiveIntegerField(default=0)),
                ("environment", models.CharField(blank=True, default="", max_length=512)),
                ("values", models.JSONField(default=dict)),
                ("sources", models.JSONField(default=list)),
                ("account", models.CharField(blank=True, default="", max_length=32)),
                ("ecs_service", models.CharField(blank=True, default="", max_length=255)),
                ("counts", models.JSONField(null=True)),
                ("deployment_id", models.CharField(blank=True, default="", max_length=64)),
                ("when", models.JSONField(null=True)),
                ("skip_reason", models.CharField(blank=True, default="", max_length=512)),
                (
                    "reused_from",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.stageexecution",
                    ),
                ),
                (
                    "connector",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="connectors.connector",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stages",
                        to="deployments.execution",
                    ),
                ),
                (
                    "infrastructure",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="stages",
                        to="catalog.infrastructure",
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="stages",
                        to="catalog.service",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ServiceLock",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=512, unique=True)),
                ("acquired_at", models.DateTimeField()),
                (
                    "stage",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="locks",
                        to="deployments.stageexecution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StepExecution",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                (
                    "section",
                    models.CharField(
                        choices=[("EXECUTION", "Execution"), ("ROLLBACK", "Rollback")],
                        default="EXECUTION",
                        max_length=16,
                    ),
                ),
                ("identifier", models.CharField(max_length=128)),
                ("name", models.CharField(max_length=128)),
                ("type", models.CharField(max_length=64)),
                ("spec", models.JSONField(default=dict)),
                ("unresolved_spec", models.JSONField(null=True)),
                ("timeout_seconds", models.PositiveIntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("ASYNC_WAITING", "Async Waiting"),
                            ("APPROVAL_WAITING", "Approval Waiting"),
                            ("INTERVENTION_WAITING", "Intervention Waiting"),
                            ("INPUT_WAITING", "Input Waiting"),
                            ("PAUSED", "Paused"),
                            ("ROLLING_BACK", "Rolling Back"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("SUCCESS", "Success"),
                            ("FAILED", "Failed"),
                            ("ABORTED", "Aborted"),
                            ("EXPIRED", "Expired"),
                            ("SKIPPED", "Skipped"),
                            ("APPROVAL_REJECTED", "Approval Rejected"),
                            ("IGNORE_FAILED", "Ignore Failed"),
                        ],
                        default="QUEUED",
                        max_length=32,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("run", models.PositiveIntegerField(default=1)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("timeout_at", models.DateTimeField(null=True)),
                ("first_line", models.PositiveBigIntegerField(null=True)),
                ("log_bytes", models.PositiveBigIntegerField(default=0)),
                ("log_dropped", models.PositiveBigIntegerField(default=0)),
                ("log_last_dropped", models.TextField(blank=True, default="")),
                ("outputs", models.JSONField(default=dict)),
                ("secret_outputs", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("failure", models.JSONField(null=True)),
                ("failure_strategies", models.JSONField(default=list)),
                ("intervention", models.JSONField(null=True)),
                ("retries", models.PositiveIntegerField(default=0)),
                ("retry_at", models.DateTimeField(null=True)),
                ("delegate_selectors", models.JSONField(default=list)),
                ("selectors_from", models.CharField(blank=True, default="", max_length=16)),
                ("when", models.JSONField(null=True)),
                ("skip_reason", models.CharField(blank=True, default="", max_length=512)),
                (
                    "stage",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="deployments.stageexecution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ServiceLockClaim",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=512)),
                ("ecs_service", models.CharField(max_length=255)),
                ("requested_at", models.DateTimeField()),
                ("granted_at", models.DateTimeField(null=True)),
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
        ),
        migrations.CreateModel(
            name="RollbackValue",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("run", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=1024)),
                ("value", rbac.encrypted_fields.EncryptedTextField()),
                (
                    "step",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rollback_values",
                        to="deployments.stepexecution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RollbackCheck",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("position", models.PositiveIntegerField()),
                ("subject", models.CharField(max_length=255)),
                ("expected", models.TextField()),
                ("actual", models.TextField()),
                ("passed", models.BooleanField()),
                ("note", models.TextField(blank=True, default="")),
                (
                    "step",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rollback_checks",
                        to="deployments.stepexecution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AwsCall",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("phase", models.CharField(max_length=24)),
                ("number", models.PositiveIntegerField()),
                ("service", models.CharField(max_length=64)),
                ("operation", models.CharField(max_length=128)),
                ("is_write", models.BooleanField()),
                ("params_hash", models.CharField(max_length=64)),
                ("parameters", rbac.encrypted_fields.EncryptedTextField()),
                ("preview", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("PLANNED", "Planned"),
                            ("SENT", "Sent"),
                            ("ANSWERED", "Answered"),
                            ("FAILED", "Failed"),
                            ("NOT_SENT", "Not Sent"),
                            ("UNKNOWN", "Unknown"),
                        ],
                        default="PLANNED",
                        max_length=16,
                    ),
                ),
                ("send_number", models.PositiveIntegerField(default=0)),
                ("repeat_count", models.PositiveIntegerField(default=1)),
                ("is_confirmed", models.BooleanField(default=False)),
                ("result", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("error", models.JSONField(null=True)),
                ("planned_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(null=True)),
                ("answered_at", models.DateTimeField(null=True)),
                ("duration_ms", models.PositiveIntegerField(null=True)),
                ("served_by", models.JSONField(default=list)),
                (
                    "action",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="calls",
                        to="deployments.actionrun",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="delegates.delegatetask",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="calls",
                        to="deployments.execution",
                    ),
                ),
                (
                    "step",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="calls",
                        to="deployments.stepexecution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("attempt", models.PositiveIntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("WAITING", "Waiting"),
                            ("APPROVED", "Approved"),
                            ("REJECTED", "Rejected"),
                            ("EXPIRED", "Expired"),
                            ("WITHDRAWN", "Withdrawn"),
                        ],
                        default="WAITING",
                        max_length=16,
                    ),
                ),
                ("message", models.TextField(blank=True, default="")),
                ("group_names", models.JSONField(default=list)),
                ("minimum_approvals", models.PositiveIntegerField(default=1)),
                ("excludes_executor", models.BooleanField(default=False)),
                ("inputs", models.JSONField(default=list)),
                ("includes_history", models.BooleanField(default=False)),
                ("requested_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("decision_count", models.PositiveIntegerField(default=0)),
                ("plan", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("plan_hash", models.CharField(blank=True, default="", max_length=64)),
                ("planned_at", models.DateTimeField(null=True)),
                ("refreshes_requested", models.PositiveIntegerField(default=1)),
                ("refreshes_completed", models.PositiveIntegerField(default=0)),
                ("groups", models.ManyToManyField(related_name="+", to="rbac.usergroup")),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="approvals",
                        to="deployments.execution",
                    ),
                ),
                (
                    "step",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="approvals",
                        to="deployments.stepexecution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AppliedConfiguration",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("identifier", models.CharField(max_length=128)),
                ("parameters", rbac.encrypted_fields.EncryptedTextField()),
                ("applied_by", models.CharField(max_length=255)),
                ("applied_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(null=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="applied_configurations",
                        to="rbac.scope",
                    ),
                ),
                (
                    "step",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.stepexecution",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="actionrun",
            name="step",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="actions",
                to="deployments.stepexecution",
            ),
        ),
        migrations.CreateModel(
            name="StepGroup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                (
                    "kind",
                    models.CharField(choices=[("GROUP", "Group"), ("PARALLEL", "Parallel")], max_length=16),
                ),
                ("identifier", models.CharField(blank=True, default="", max_length=128)),
                ("name", models.CharField(blank=True, default="", max_length=128)),
                ("when", models.JSONField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("ASYNC_WAITING", "Async Waiting"),
                            ("APPROVAL_WAITING", "Approval Waiting"),
                            ("INTERVENTION_WAITING", "Intervention Waiting"),
                            ("INPUT_WAITING", "Input Waiting"),
                            ("PAUSED", "Paused"),
                            ("ROLLING_BACK", "Rolling Back"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("SUCCESS", "Success"),
                            ("FAILED", "Failed"),
                            ("ABORTED", "Aborted"),
                            ("EXPIRED", "Expired"),
                            ("SKIPPED", "Skipped"),
                            ("APPROVAL_REJECTED", "Approval Rejected"),
                            ("IGNORE_FAILED", "Ignore Failed"),
                        ],
                        default="QUEUED",
                        max_length=32,
                    ),
                ),
                ("skip_reason", models.CharField(blank=True, default="", max_length=512)),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="groups",
                        to="deployments.stepgroup",
                    ),
                ),
                (
                    "stage",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="groups",
                        to="deployments.stageexecution",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="stepexecution",
            name="group",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="steps",
                to="deployments.stepgroup",
            ),
        ),
        migrations.CreateModel(
            name="StoredPlan",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("identifier", models.CharField(max_length=128)),
                ("parameters", rbac.encrypted_fields.EncryptedTextField()),
                ("content", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("destroys", models.BooleanField(default=False)),
                ("planned_at", models.DateTimeField()),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="plans",
                        to="deployments.execution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StoredText",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64, unique=True)),
                ("text", rbac.encrypted_fields.EncryptedTextField(blank=True)),
                ("bytes", models.PositiveIntegerField()),
                ("used_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["used_at"], name="stored_text_by_age")],
            },
        ),
        migrations.CreateModel(
            name="StoredTextUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "stage",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stored_text_uses",
                        to="deployments.stageexecution",
                    ),
                ),
                (
                    "text",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="uses",
                        to="deployments.storedtext",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ApprovalDecision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("by_name", models.CharField(max_length=150)),
                (
                    "verdict",
                    models.CharField(choices=[("APPROVE", "Approve"), ("REJECT", "Reject")], max_length=16),
                ),
                ("comment", models.TextField(blank=True, default="")),
                ("inputs", models.JSONField(default=dict)),
                ("plan_hash", models.CharField(max_length=64)),
                ("at", models.DateTimeField()),
                (
                    "approval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="decisions",
                        to="deployments.approval",
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("approval", "by", "plan_hash"), name="approval_decided_once_by_each"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="execution_due"
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(fields=["-created_at", "-id"], name="execution_newest"),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(fields=["scope", "-created_at", "-id"], name="execution_newest_in_scope"),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                fields=["pipeline", "-created_at", "-id"], name="execution_newest_of_pipeline"
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(fields=["status", "-created_at", "-id"], name="execution_newest_with_status"),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(
                    (
                        "status__in",
                        (
                            "SUCCESS",
                            "FAILED",
                            "ABORTED",
                            "EXPIRED",
                            "SKIPPED",
                            "APPROVAL_REJECTED",
                            "IGNORE_FAILED",
                            "ROLLED_BACK",
                        ),
                    ),
                    _negated=True,
                ),
                fields=["scope"],
                name="execution_open_in_scope",
            ),
        ),
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
                condition=models.Q(("details_deleted_at__isnull", True), ("ended_at__isnull", False)),
                fields=["ended_at"],
                name="execution_with_details",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("first_attempt__isnull", False)),
                fields=["first_attempt"],
                name="execution_first_attempt",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(fields=["number"], name="execution_number"),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(fields=["tag"], name="execution_tag"),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.UniqueConstraint(fields=("pipeline", "number"), name="execution_number_unique"),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.UniqueConstraint(
                condition=models.Q(("idempotency_key__isnull", False)),
                fields=("pipeline", "started_by", "idempotency_key"),
                name="execution_idempotency_key_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("due_at__isnull", False),
                    (
                        "status__in",
                        (
                            "SUCCESS",
                            "FAILED",
                            "ABORTED",
                            "EXPIRED",
                            "SKIPPED",
                            "APPROVAL_REJECTED",
                            "IGNORE_FAILED",
                            "ROLLED_BACK",
                        ),
                    ),
                    _connector="OR",
                ),
                name="execution_open_has_due_at",
            ),
        ),
        migrations.AddConstraint(
            model_name="awsevent",
            constraint=models.UniqueConstraint(fields=("execution", "event_id"), name="aws_event_unique"),
        ),
        migrations.AddConstraint(
            model_name="freezewindow",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="freeze_window_identifier_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="logchunk",
            constraint=models.UniqueConstraint(fields=("execution", "first"), name="chunk_first_unique"),
        ),
        migrations.AddIndex(
            model_name="previewrequest",
            index=models.Index(fields=["pipeline", "requested_by", "-requested_at"], name="preview_newest"),
        ),
        migrations.AddIndex(
            model_name="stageexecution",
            index=models.Index(
                condition=models.Q(("ecs_service", ""), _negated=True),
                fields=["cluster", "ecs_service"],
                name="stage_ecs_service",
            ),
        ),
        migrations.AddIndex(
            model_name="stageexecution",
            index=models.Index(
                condition=models.Q(("deployment_id", ""), _negated=True),
                fields=["deployment_id"],
                name="stage_deployment",
            ),
        ),
        migrations.AddIndex(
            model_name="stageexecution",
            index=models.Index(
                condition=models.Q(
                    (
                        "status__in",
                        (
                            "SUCCESS",
                            "FAILED",
                            "ABORTED",
                            "EXPIRED",
                            "SKIPPED",
                            "APPROVAL_REJECTED",
                            "IGNORE_FAILED",
                            "ROLLED_BACK",
                        ),
                    ),
                    _negated=True,
                ),
                fields=["service", "-id"],
                name="stage_open_of_service",
            ),
        ),
        migrations.AddIndex(
            model_name="stageexecution",
            index=models.Index(
                condition=models.Q(("reused_from", None)),
                fields=["service", "-id"],
                name="stage_newest_of_service",
            ),
        ),
        migrations.AddIndex(
            model_name="stageexecution",
            index=models.Index(
                condition=models.Q(("reused_from", None)),
                fields=["infrastructure", "-id"],
                name="stage_newest_in_place",
            ),
        ),
        migrations.AddConstraint(
            model_name="stageexecution",
            constraint=models.UniqueConstraint(
                fields=("execution", "position"), name="stage_position_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="servicelockclaim",
            index=models.Index(fields=["key"], name="service_lock_claim_key"),
        ),
        migrations.AddConstraint(
            model_name="servicelockclaim",
            constraint=models.UniqueConstraint(fields=("step", "key"), name="service_lock_claim_unique"),
        ),
        migrations.AddConstraint(
            model_name="rollbackvalue",
            constraint=models.UniqueConstraint(
                fields=("step", "run", "name"), name="rollback_value_name_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="rollbackcheck",
            constraint=models.UniqueConstraint(
                fields=("step", "attempt", "position"), name="rollback_check_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="awscall",
            index=models.Index(fields=["execution", "id"], name="call_of_execution"),
        ),
        migrations.AddConstraint(
            model_name="awscall",
            constraint=models.UniqueConstraint(
                fields=("action", "attempt", "phase", "number"), name="call_number_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(fields=["-requested_at", "-id"], name="approval_newest"),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(fields=["status", "-requested_at", "-id"], name="approval_newest_with_status"),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(fields=("step", "attempt"), name="approval_once_per_attempt"),
        ),
        migrations.AddIndex(
            model_name="appliedconfiguration",
            index=models.Index(
                condition=models.Q(("removed_at", None)),
                fields=["scope", "identifier", "-applied_at"],
                name="applied_latest",
            ),
        ),
        migrations.AddConstraint(
            model_name="actionrun",
            constraint=models.UniqueConstraint(fields=("step", "position"), name="action_position_unique"),
        ),
        migrations.AddConstraint(
            model_name="stepexecution",
            constraint=models.UniqueConstraint(
                fields=("stage", "section", "position"), name="step_position_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="stepexecution",
            constraint=models.UniqueConstraint(fields=("stage", "identifier"), name="step_identifier_unique"),
        ),
        migrations.AddConstraint(
            model_name="storedtextuse",
            constraint=models.UniqueConstraint(fields=("stage", "text"), name="stored_text_use_unique"),
        ),
    ]
