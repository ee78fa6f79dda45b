"""The tables of delegates, and the first rows of an installation."""

import uuid

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import delegates.models.delegates
import rbac.encrypted_fields
from delegates.models.delegates import create_first_rows


def begin(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make the account id, the primary configuration and the built-in delegate."""
    create_first_rows(apps)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("connectors", "0001_initial"),
        ("rbac", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AccountId",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "account_id",
                    models.CharField(
                        default=delegates.models.delegates.generate_account_id,
                        editable=False,
                        max_length=32,
                        unique=True,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DelegateConfiguration",
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
                                "Use up to 128 letters, digits, underscores and dollar signs, starting "
                                "with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("script", models.TextField(blank=True, default="")),
                ("timeout_seconds", models.PositiveIntegerField(default=600)),
                ("requires_approval", models.BooleanField(default=False)),
                ("is_primary", models.BooleanField(default=False, editable=False)),
                ("environments", models.JSONField(blank=True, default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="delegate_configurations",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delegate",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("description", models.TextField(blank=True, default="")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("ECS", "ECS"),
                            ("DOCKER", "Docker"),
                            ("KUBERNETES", "Kubernetes"),
                            ("SHELL_SCRIPT", "Shell script"),
                            ("BUILT_IN", "Built in"),
                        ],
                        default="ECS",
                        max_length=16,
                    ),
                ),
                ("flavour", models.CharField(blank=True, default="", max_length=8)),
                ("size", models.CharField(blank=True, default="", max_length=32)),
                ("tags", models.JSONField(blank=True, default=list)),
                (
                    "admission",
                    models.CharField(
                        choices=[
                            ("ENABLED", "Enabled"),
                            ("PENDING_APPROVAL", "Waiting for approval"),
                            ("REJECTED", "Rejected"),
                            ("DISABLED", "Disabled"),
                        ],
                        default="ENABLED",
                        max_length=16,
                    ),
                ),
                ("draining", models.BooleanField(default=False)),
                ("shares_scripts", models.BooleanField(default=False)),
                ("is_built_in", models.BooleanField(default=False, editable=False)),
                ("spec", models.JSONField(blank=True, default=dict)),
                ("aws_account", models.CharField(blank=True, default="", max_length=12)),
                (
                    "away_since",
                    models.DateTimeField(default=django.utils.timezone.now, editable=False, null=True),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="delegates", to="rbac.scope"
                    ),
                ),
                (
                    "configuration",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="delegates",
                        to="delegates.delegateconfiguration",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DelegateInstance",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=512)),
                ("public_key", models.CharField(blank=True, default="", max_length=44)),
                ("hostname", models.CharField(blank=True, default="", max_length=255)),
                ("private_ip", models.CharField(blank=True, default="", max_length=64)),
                ("version", models.CharField(blank=True, default="", max_length=64)),
                ("flavour", models.CharField(blank=True, default="", max_length=8)),
                ("tags", models.JSONField(blank=True, default=list)),
                ("capacity", models.PositiveIntegerField(default=10)),
                (
                    "connection",
                    models.CharField(
                        choices=[("WEBSOCKET", "WebSocket"), ("POLLING", "Polling"), ("NONE", "None")],
                        default="NONE",
                        max_length=12,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[("REGISTERED", "Registered"), ("DRAINING", "Draining"), ("GONE", "Gone")],
                        default="REGISTERED",
                        max_length=12,
                    ),
                ),
                ("session_hash", models.CharField(blank=True, db_index=True, default="", max_length=64)),
                ("previous_session_hash", models.CharField(blank=True, default="", max_length=64)),
                ("session_expires_at", models.DateTimeField(null=True)),
                ("suspect_since", models.DateTimeField(null=True)),
                ("last_heartbeat_at", models.DateTimeField(null=True)),
                ("registered_at", models.DateTimeField()),
                ("running", models.PositiveIntegerField(default=0)),
                ("max_executing", models.PositiveIntegerField(default=0)),
                ("cpu_process", models.FloatField(default=0)),
                ("cpu_system", models.FloatField(default=0)),
                ("memory_mib", models.FloatField(default=0)),
                ("ecs", models.JSONField(blank=True, default=dict)),
                ("clock_skew_seconds", models.FloatField(default=0)),
                (
                    "isolation",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("users_and_namespaces", "Own user and namespaces for each task"),
                            ("users", "Own user for each task"),
                            ("namespaces", "Own namespaces for each task"),
                            ("none", "None"),
                            ("", "Not reported"),
                        ],
                        default="",
                        max_length=24,
                    ),
                ),
                ("script_scope", models.CharField(blank=True, default="", max_length=400)),
                (
                    "delegate",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="instances",
                        to="delegates.delegate",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DelegateEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("at", models.DateTimeField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("REGISTERED", "Registered"),
                            ("REFUSED", "Refused"),
                            ("CONNECTED", "Connected"),
                            ("SUSPECT", "Socket closed"),
                            ("LATE", "Late"),
                            ("DISCONNECTED", "Disconnected"),
                            ("DRAINING", "Draining"),
                            ("GONE", "Gone"),
                            ("APPROVED", "Approved"),
                            ("REJECTED", "Rejected"),
                            ("DISABLED", "Disabled"),
                            ("ENABLED", "Enabled"),
                            ("SESSION_ENDED", "Session ended"),
                            ("CONFIGURATION", "Configuration"),
                            ("BLOCKED", "Temporarily blocked"),
                            ("TASK_LOST", "Task lost"),
                        ],
                        max_length=16,
                    ),
                ),
                ("text", models.TextField()),
                ("address", models.CharField(blank=True, default="", max_length=64)),
                (
                    "delegate",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="delegates.delegate",
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="delegate_events",
                        to="rbac.scope",
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="delegates.delegateinstance",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ConfigurationRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("started_at", models.DateTimeField()),
                ("duration_ms", models.PositiveIntegerField()),
                ("exit_code", models.IntegerField()),
                ("output", models.TextField(blank=True)),
                (
                    "configuration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="delegates.delegateconfiguration",
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="configuration_runs",
                        to="delegates.delegateinstance",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DelegateLogChunk",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sequence", models.PositiveBigIntegerField()),
                ("count", models.PositiveIntegerField()),
                ("text", models.TextField()),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "instance",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="log_chunks",
                        to="delegates.delegateinstance",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DelegateTask",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("aws", "AWS call"),
                            ("shell", "Shell script"),
                            ("terraform", "Terraform"),
                            ("http", "HTTP request"),
                            ("git", "Git fetch"),
                            ("docker_registry", "Docker registry"),
                            ("check", "Connectivity check"),
                        ],
                        max_length=16,
                    ),
                ),
                ("title", models.CharField(max_length=255)),
                ("payload", rbac.encrypted_fields.EncryptedTextField()),
                ("owner", models.CharField(blank=True, default="", max_length=32)),
                ("owner_ref", models.CharField(blank=True, default="", max_length=64)),
                ("trace_context", models.JSONField(default=dict)),
                ("is_write", models.BooleanField(default=False)),
                ("repeatable", models.BooleanField(default=True)),
                ("selectors", models.JSONField(default=list)),
                ("selectors_from", models.CharField(blank=True, default="", max_length=16)),
                ("criterion", models.CharField(blank=True, default="", max_length=512)),
                ("aws_account", models.CharField(blank=True, default="", max_length=12)),
                ("environment", models.CharField(blank=True, default="", max_length=512)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("STARTED", "Running"),
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("EXPIRED", "Expired"),
                            ("ABORTED", "Aborted"),
                        ],
                        default="QUEUED",
                        max_length=12,
                    ),
                ),
                ("reason", models.TextField(blank=True, default="")),
                ("offered_until", models.DateTimeField(null=True)),
                ("instance_name", models.CharField(blank=True, default="", max_length=400)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("lease_until", models.DateTimeField(null=True)),
                ("timeout_seconds", models.PositiveIntegerField(default=60)),
                ("queued_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("deadline", models.DateTimeField()),
                ("abort_requested", models.BooleanField(default=False)),
                ("result", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("error", models.JSONField(null=True)),
                ("next_sequence", models.PositiveBigIntegerField(default=0)),
                ("log_bytes_left", models.BigIntegerField(null=True)),
                ("log_counted_at", models.DateTimeField(null=True)),
                ("log_throttled", models.BooleanField(default=False)),
                (
                    "connector",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="connectors.connector",
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="tasks",
                        to="delegates.delegateinstance",
                    ),
                ),
                (
                    "offered_to",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="offers",
                        to="delegates.delegate",
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="delegate_tasks",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DelegateToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("value", rbac.encrypted_fields.EncryptedTextField()),
                ("token_hash", models.CharField(editable=False, max_length=64, unique=True)),
                ("prefix", models.CharField(editable=False, max_length=16)),
                (
                    "status",
                    models.CharField(
                        choices=[("ACTIVE", "Active"), ("REVOKED", "Revoked")], default="ACTIVE", max_length=8
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "revoked_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="delegate_tokens",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="delegateinstance",
            name="token",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="instances",
                to="delegates.delegatetoken",
            ),
        ),
        migrations.AddField(
            model_name="delegate",
            name="token",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="delegates",
                to="delegates.delegatetoken",
            ),
        ),
        migrations.CreateModel(
            name="InstanceSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("cpu_process", models.FloatField()),
                ("cpu_system", models.FloatField()),
                ("memory_mib", models.FloatField()),
                ("running", models.PositiveIntegerField()),
                (
                    "instance",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="samples",
                        to="delegates.delegateinstance",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LastServed",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "connector",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="connectors.connector",
                    ),
                ),
                (
                    "delegate",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="delegates.delegate"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LateAnswer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("fence", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("body", rbac.encrypted_fields.EncryptedTextField()),
                (
                    "instance",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="delegates.delegateinstance",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="late_answers",
                        to="delegates.delegatetask",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LookupRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("TEST", "Connector test"),
                            ("CLUSTERS", "Clusters"),
                            ("BALANCERS", "Load balancers"),
                            ("LISTENERS", "Listeners"),
                            ("RULES", "Listener rules"),
                            ("TAGS", "Image tags"),
                            ("REPOSITORIES", "Repositories"),
                            ("FILES", "Manifest files"),
                        ],
                        max_length=16,
                    ),
                ),
                ("region", models.CharField(max_length=64)),
                ("subject", models.CharField(blank=True, default="", max_length=400)),
                ("params", models.JSONField(default=dict)),
                ("requested_at", models.DateTimeField()),
                ("answers", rbac.encrypted_fields.EncryptedTextField(blank=True, default="[]")),
                ("answered_by", models.CharField(blank=True, default="", max_length=400)),
                ("report", models.JSONField(null=True)),
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
                    "connector",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="connectors.connector",
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
            name="RoutingDecision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("sentence", models.TextField(blank=True)),
                ("rows", models.JSONField(default=list)),
                (
                    "chosen",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="delegates.delegate",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="decisions",
                        to="delegates.delegatetask",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TaskAttempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("fence", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("answered_at", models.DateTimeField(null=True)),
                ("variant", models.CharField(blank=True, default="", max_length=128)),
                (
                    "instance",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="delegates.delegateinstance",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="taken",
                        to="delegates.delegatetask",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TaskLogChunk",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sequence", models.PositiveBigIntegerField()),
                ("count", models.PositiveIntegerField()),
                ("lines", models.TextField()),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="log_chunks",
                        to="delegates.delegatetask",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BlocklistEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("criterion", models.CharField(max_length=512)),
                ("expires_at", models.DateTimeField()),
                ("reason", models.TextField(blank=True)),
                (
                    "delegate",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="blocked",
                        to="delegates.delegate",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("delegate", "criterion"), name="blocklist_entry_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="AllowlistEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("criterion", models.CharField(max_length=512)),
                ("validated_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                (
                    "delegate",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="allowed",
                        to="delegates.delegate",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("delegate", "criterion"), name="allowlist_entry_unique")
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="delegateconfiguration",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="delegate_configuration_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="delegateconfiguration",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_primary", True)),
                fields=("is_primary",),
                name="delegate_configuration_one_primary",
            ),
        ),
        migrations.AddIndex(
            model_name="delegateevent",
            index=models.Index(fields=["delegate", "-at"], name="delegate_event_newest"),
        ),
        migrations.AddIndex(
            model_name="delegateevent",
            index=models.Index(fields=["scope", "name", "-at"], name="delegate_event_by_name"),
        ),
        migrations.AddIndex(
            model_name="configurationrun",
            index=models.Index(fields=["configuration", "-started_at"], name="configuration_run_newest"),
        ),
        migrations.AddConstraint(
            model_name="delegatelogchunk",
            constraint=models.UniqueConstraint(
                fields=("instance", "sequence"), name="delegate_log_sequence_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(
                condition=models.Q(("status", "QUEUED")),
                fields=["offered_to", "queued_at"],
                name="task_offered",
            ),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(
                condition=models.Q(("status", "QUEUED")), fields=["queued_at"], name="task_queued"
            ),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(
                condition=models.Q(("status", "STARTED")), fields=["lease_until"], name="task_leased"
            ),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(fields=["instance", "-queued_at"], name="task_of_instance"),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(fields=["owner", "owner_ref"], name="task_of_owner"),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", False)),
                fields=["finished_at"],
                name="task_finished",
            ),
        ),
        migrations.AddIndex(
            model_name="instancesample",
            index=models.Index(fields=["at"], name="instance_sample_by_age"),
        ),
        migrations.AddIndex(
            model_name="delegatelogchunk",
            index=models.Index(fields=["at"], name="delegate_log_by_age"),
        ),
        migrations.AddIndex(
            model_name="delegateevent",
            index=models.Index(fields=["at"], name="delegate_event_by_age"),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(fields=["-queued_at", "-id"], name="task_newest"),
        ),
        migrations.AddIndex(
            model_name="delegatetask",
            index=models.Index(fields=["scope", "-queued_at", "-id"], name="task_newest_of_scope"),
        ),
        migrations.AddConstraint(
            model_name="delegatetoken",
            constraint=models.UniqueConstraint(fields=("scope", "name"), name="delegate_token_name_unique"),
        ),
        migrations.AddConstraint(
            model_name="delegatetoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("revoked_at__isnull", True), ("status", "ACTIVE")),
                    models.Q(("revoked_at__isnull", False), ("status", "REVOKED")),
                    _connector="OR",
                ),
                name="delegate_token_revoked_has_moment",
            ),
        ),
        migrations.AddConstraint(
            model_name="delegateinstance",
            constraint=models.UniqueConstraint(
                fields=("delegate", "key"), name="delegate_instance_key_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="delegate",
            constraint=models.UniqueConstraint(fields=("scope", "name"), name="delegate_unique_in_scope"),
        ),
        migrations.AddConstraint(
            model_name="delegate",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_built_in", True)),
                fields=("is_built_in",),
                name="delegate_one_built_in",
            ),
        ),
        migrations.AddIndex(
            model_name="instancesample",
            index=models.Index(fields=["instance", "at"], name="instance_sample_by_time"),
        ),
        migrations.AddIndex(
            model_name="lookuprequest",
            index=models.Index(fields=["connector", "kind", "-requested_at"], name="inquiry_newest"),
        ),
        migrations.AddConstraint(
            model_name="routingdecision",
            constraint=models.UniqueConstraint(fields=("task", "number"), name="routing_decision_number"),
        ),
        migrations.AddConstraint(
            model_name="taskattempt",
            constraint=models.UniqueConstraint(fields=("task", "fence"), name="task_attempt_fence_unique"),
        ),
        migrations.AddConstraint(
            model_name="tasklogchunk",
            constraint=models.UniqueConstraint(fields=("task", "sequence"), name="task_log_sequence_unique"),
        ),
        migrations.RunPython(begin, migrations.RunPython.noop),
    ]
