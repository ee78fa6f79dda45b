"""The tables of notifications."""

import uuid

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import rbac.encrypted_fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("rbac", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="OutboxLease",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("lease_expires_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="NotificationRule",
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
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                (
                    "kind",
                    models.CharField(choices=[("Webhook", "Webhook")], default="Webhook", max_length=16),
                ),
                ("events", models.JSONField(default=list)),
                ("url", rbac.encrypted_fields.EncryptedTextField()),
                ("host", models.CharField(max_length=255)),
                ("secret", rbac.encrypted_fields.EncryptedTextField(blank=True, default="")),
                ("is_signed", models.BooleanField(default=False)),
                ("is_enabled", models.BooleanField(default=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("failures", models.PositiveIntegerField(default=0, editable=False)),
                ("paused_until", models.DateTimeField(editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notification_rules",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "event",
                    models.CharField(
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
                        ],
                        max_length=32,
                    ),
                ),
                ("text", models.CharField(max_length=1024)),
                ("body", models.TextField()),
                (
                    "status",
                    models.CharField(
                        choices=[("WAITING", "Waiting"), ("DELIVERED", "Delivered"), ("FAILED", "Failed")],
                        default="WAITING",
                        max_length=16,
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("sends", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("deadline_at", models.DateTimeField()),
                ("claimed_until", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("response_status", models.PositiveIntegerField(null=True)),
                ("reason", models.CharField(blank=True, default="", max_length=512)),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notifications",
                        to="notifications.notificationrule",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="notificationrule",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="notification_rule_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="notificationrule",
            constraint=models.CheckConstraint(
                condition=models.Q(("identifier__regex", "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z")),
                name="notification_rule_identifier_is_valid",
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(
                condition=models.Q(("status", "WAITING")), fields=["rule", "due_at"], name="notification_due"
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(fields=["rule", "-created_at", "-id"], name="notification_newest_of_rule"),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(fields=["created_at"], name="notification_oldest"),
        ),
    ]
