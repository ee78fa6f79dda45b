"""The tables of the inventory."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import rbac.encrypted_fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("catalog", "0001_initial"),
        ("connectors", "0001_initial"),
        ("delegates", "0001_initial"),
        ("deployments", "0001_initial"),
        ("pipelines", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ContainerInstance",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("arn", models.CharField(max_length=512)),
                ("ec2_instance", models.CharField(blank=True, default="", max_length=64)),
                ("instance_type", models.CharField(blank=True, default="", max_length=64)),
                ("zone", models.CharField(blank=True, default="", max_length=64)),
                ("status", models.CharField(blank=True, default="", max_length=32)),
                ("agent_connected", models.BooleanField(null=True)),
                ("agent_version", models.CharField(blank=True, default="", max_length=64)),
                ("cpu", models.PositiveIntegerField(null=True)),
                ("memory", models.PositiveIntegerField(null=True)),
                ("cpu_left", models.PositiveIntegerField(null=True)),
                ("memory_left", models.PositiveIntegerField(null=True)),
                ("running", models.PositiveIntegerField(default=0)),
                ("pending", models.PositiveIntegerField(default=0)),
                ("registered_at", models.DateTimeField(null=True)),
                ("seen_at", models.DateTimeField()),
                ("gone_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SyncPause",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=255, unique=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("paused_until", models.DateTimeField()),
                ("trial_expires_at", models.DateTimeField(null=True)),
                ("failed_at", models.DateTimeField()),
                ("failure", models.TextField()),
                ("failure_code", models.CharField(blank=True, default="", max_length=128)),
                ("failure_step", models.TextField(blank=True, default="")),
            ],
        ),
        migrations.CreateModel(
            name="TaskDefinitionRevision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("arn", models.CharField(max_length=512, unique=True)),
                ("content", rbac.encrypted_fields.EncryptedTextField()),
                ("registered_at", models.DateTimeField(null=True)),
                ("registered_by", models.CharField(blank=True, default="", max_length=512)),
                ("used_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="EcsServiceRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=255)),
                ("arn", models.CharField(max_length=512)),
                ("status", models.CharField(max_length=32)),
                ("desired", models.PositiveIntegerField(default=0)),
                ("running", models.PositiveIntegerField(default=0)),
                ("pending", models.PositiveIntegerField(default=0)),
                ("task_definition", models.CharField(blank=True, default="", max_length=512)),
                ("description", models.JSONField(default=dict)),
                ("scaling", models.JSONField(null=True)),
                ("scaling_seen_at", models.DateTimeField(null=True)),
                ("viewed_at", models.DateTimeField(null=True)),
                ("targets", models.JSONField(default=list)),
                ("targets_read_at", models.DateTimeField(null=True)),
                ("usage", models.JSONField(default=dict)),
                ("usage_read_at", models.DateTimeField(null=True)),
                ("usage_requested_at", models.DateTimeField(null=True)),
                ("first_seen_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("gone_at", models.DateTimeField(null=True)),
                (
                    "infrastructure",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="ecs_service_records",
                        to="catalog.infrastructure",
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="ecs_service_records",
                        to="catalog.service",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DriftComparison",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("IN_STEP", "In sync"),
                            ("DRIFTED", "Drifted"),
                            ("ACCEPTED", "Drift accepted"),
                            ("DEPLOYING", "Deploying"),
                            ("NOT_COMPARED", "Not compared"),
                        ],
                        default="NOT_COMPARED",
                        max_length=16,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=512)),
                ("aws_defaults", models.JSONField(default=dict)),
                ("aws_defaults_deployment", models.CharField(blank=True, default="", max_length=128)),
                ("compared_at", models.DateTimeField(null=True)),
                (
                    "execution",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.execution",
                    ),
                ),
                (
                    "ecs_service",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="comparison",
                        to="inventory.ecsservicerecord",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Adoption",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("READING", "Reading"),
                            ("READY", "Ready to adopt"),
                            ("REFUSED", "Cannot be adopted"),
                            ("ADOPTED", "Adopted"),
                        ],
                        default="READING",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField(blank=True, default="")),
                ("documents", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("warnings", models.JSONField(default=list)),
                ("traffic", models.JSONField(default=dict)),
                ("task_definition", models.CharField(blank=True, default="", max_length=512)),
                ("requested_at", models.DateTimeField()),
                ("read_at", models.DateTimeField(null=True)),
                ("adopted_at", models.DateTimeField(null=True)),
                ("reserved_arn", models.CharField(blank=True, default="", max_length=512)),
                (
                    "adopted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "infrastructure",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="adoptions",
                        to="catalog.infrastructure",
                    ),
                ),
                (
                    "pipeline",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="pipelines.pipeline",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="adoptions",
                        to="catalog.service",
                    ),
                ),
                (
                    "ecs_service",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="adoptions",
                        to="inventory.ecsservicerecord",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SyncedCluster",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("region", models.CharField(max_length=64)),
                ("cluster", models.CharField(max_length=255)),
                ("account", models.CharField(blank=True, default="", max_length=32)),
                ("last_used_at", models.DateTimeField()),
                ("due_at", models.DateTimeField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("cursor", models.JSONField(null=True)),
                ("synced_at", models.DateTimeField(null=True)),
                ("seconds", models.FloatField(null=True)),
                ("calls", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failed_at", models.DateTimeField(null=True)),
                ("failure", models.TextField(blank=True, default="")),
                ("failure_code", models.CharField(blank=True, default="", max_length=128)),
                ("failure_step", models.TextField(blank=True, default="")),
                ("sync_requested_at", models.DateTimeField(null=True)),
                ("listed_at", models.DateTimeField(null=True)),
                ("follow_up_due_at", models.DateTimeField(null=True)),
                ("scaling_read_at", models.DateTimeField(null=True)),
                ("denied_reads", models.JSONField(default=list)),
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
            name="ServiceInstance",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("arn", models.CharField(max_length=512)),
                ("task_id", models.CharField(max_length=64)),
                ("task_definition", models.CharField(max_length=512)),
                ("image", models.CharField(blank=True, default="", max_length=512)),
                ("digest", models.CharField(blank=True, default="", max_length=128)),
                ("containers", models.JSONField(default=list)),
                ("last_status", models.CharField(max_length=32)),
                ("desired_status", models.CharField(max_length=32)),
                ("health", models.CharField(blank=True, default="", max_length=16)),
                ("zone", models.CharField(blank=True, default="", max_length=64)),
                ("launch_type", models.CharField(blank=True, default="", max_length=32)),
                ("capacity_provider", models.CharField(blank=True, default="", max_length=255)),
                ("address", models.GenericIPAddressField(null=True)),
                ("host", models.CharField(blank=True, default="", max_length=512)),
                ("started_by", models.CharField(blank=True, default="", max_length=128)),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("EXECUTION", "Slipway execution"),
                            ("REPLACED", "ECS, replacing a task"),
                            ("AUTO_SCALED", "Auto scaling"),
                            ("OUTSIDE", "Outside Slipway"),
                        ],
                        default="OUTSIDE",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("stopped_at", models.DateTimeField(null=True)),
                ("stop_code", models.CharField(blank=True, default="", max_length=64)),
                ("stopped_reason", models.TextField(blank=True, default="")),
                ("fingerprint", models.CharField(max_length=32)),
                ("seen_at", models.DateTimeField()),
                (
                    "container_instance",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="instances",
                        to="inventory.containerinstance",
                    ),
                ),
                (
                    "ecs_service",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="instances",
                        to="inventory.ecsservicerecord",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="instances",
                        to="deployments.execution",
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="instances",
                        to="inventory.syncedcluster",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="ecsservicerecord",
            name="cluster",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="services",
                to="inventory.syncedcluster",
            ),
        ),
        migrations.AddField(
            model_name="containerinstance",
            name="cluster",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="container_instances",
                to="inventory.syncedcluster",
            ),
        ),
        migrations.CreateModel(
            name="ClusterDriftScan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("due_at", models.DateTimeField()),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("cursor", models.JSONField(null=True)),
                ("compared_at", models.DateTimeField(null=True)),
                ("calls", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failed_at", models.DateTimeField(null=True)),
                ("failure", models.TextField(blank=True, default="")),
                ("failure_code", models.CharField(blank=True, default="", max_length=128)),
                ("failure_step", models.TextField(blank=True, default="")),
                ("scaling_read_error", models.TextField(blank=True, default="")),
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
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="drift_scan",
                        to="inventory.syncedcluster",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Drift",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("document", models.CharField(max_length=40)),
                ("path", models.CharField(blank=True, max_length=512)),
                ("desired", models.JSONField(null=True)),
                ("actual", models.JSONField(null=True)),
                ("fingerprint", models.CharField(max_length=64)),
                ("attribution", models.TextField(blank=True, default="")),
                ("detected_at", models.DateTimeField()),
                ("resolved_at", models.DateTimeField(null=True)),
                ("accepted_at", models.DateTimeField(null=True)),
                ("reason", models.CharField(blank=True, default="", max_length=512)),
                (
                    "accepted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "comparison",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="drifts",
                        to="inventory.driftcomparison",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-detected_at", "-id"], name="drift_newest"),
                    models.Index(fields=["resolved_at"], name="drift_resolved"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("resolved_at", None)),
                        fields=("comparison", "document", "path"),
                        name="drift_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="EcsServiceEvent",
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
                        choices=[("ECS", "ECS"), ("SCALING", "Auto scaling"), ("COUNT", "Desired count")],
                        default="ECS",
                        max_length=16,
                    ),
                ),
                ("event", models.CharField(max_length=64)),
                ("count", models.PositiveIntegerField(null=True)),
                ("before", models.PositiveIntegerField(null=True)),
                ("at", models.DateTimeField()),
                ("message", models.TextField()),
                (
                    "ecs_service",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="inventory.ecsservicerecord",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-at", "-id"], name="ecs_event_newest"),
                    models.Index(fields=["ecs_service", "-at", "-id"], name="ecs_event_of_service"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("ecs_service", "event"), name="ecs_event_once")
                ],
            },
        ),
        migrations.AddIndex(
            model_name="driftcomparison",
            index=models.Index(fields=["state"], name="comparison_state"),
        ),
        migrations.AddConstraint(
            model_name="adoption",
            constraint=models.UniqueConstraint(
                fields=("infrastructure", "ecs_service"), name="adoption_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="adoption",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("service__isnull", False),
                    ("state", "ADOPTED"),
                    models.Q(("reserved_arn", ""), _negated=True),
                ),
                fields=("reserved_arn",),
                name="adoption_reserved_once",
            ),
        ),
        migrations.AddIndex(
            model_name="syncedcluster",
            index=models.Index(
                condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="cluster_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="syncedcluster",
            constraint=models.UniqueConstraint(
                fields=("connector", "region", "cluster"), name="cluster_synced_once"
            ),
        ),
        migrations.AddIndex(
            model_name="serviceinstance",
            index=models.Index(
                fields=["ecs_service", "stopped_at", "-created_at"], name="instance_of_service"
            ),
        ),
        migrations.AddIndex(
            model_name="serviceinstance",
            index=models.Index(
                condition=models.Q(("stopped_at__isnull", True)),
                fields=["-created_at", "-id"],
                name="instance_newest_live",
            ),
        ),
        migrations.AddIndex(
            model_name="serviceinstance",
            index=models.Index(
                condition=models.Q(("stopped_at__isnull", False)),
                fields=["-created_at", "-id"],
                name="instance_newest_stopped",
            ),
        ),
        migrations.AddIndex(
            model_name="serviceinstance",
            index=models.Index(
                condition=models.Q(("stopped_at__isnull", True)), fields=["cluster"], name="instance_live"
            ),
        ),
        migrations.AddIndex(
            model_name="serviceinstance",
            index=models.Index(fields=["stopped_at"], name="instance_stopped"),
        ),
        migrations.AddConstraint(
            model_name="serviceinstance",
            constraint=models.UniqueConstraint(fields=("cluster", "arn"), name="instance_once"),
        ),
        migrations.AddConstraint(
            model_name="ecsservicerecord",
            constraint=models.UniqueConstraint(fields=("cluster", "name"), name="ecs_service_name_once"),
        ),
        migrations.AddConstraint(
            model_name="containerinstance",
            constraint=models.UniqueConstraint(fields=("cluster", "arn"), name="container_instance_once"),
        ),
        migrations.AddIndex(
            model_name="clusterdriftscan",
            index=models.Index(fields=["due_at"], name="compared_cluster_due"),
        ),
    ]
