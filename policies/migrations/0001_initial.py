"""The table of policy rules."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("rbac", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyRule",
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
                    "subject",
                    models.CharField(
                        choices=[("Pipeline", "Pipeline"), ("Manifest", "Manifest"), ("Run", "Run")],
                        max_length=16,
                    ),
                ),
                ("condition", models.CharField(max_length=2000)),
                ("message", models.CharField(max_length=500)),
                (
                    "effect",
                    models.CharField(
                        choices=[("WARN", "Warn"), ("REFUSE", "Refuse")], default="WARN", max_length=16
                    ),
                ),
                ("is_enabled", models.BooleanField(default=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policy_rules",
                        to="rbac.scope",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_enabled", True)),
                        fields=["scope", "subject"],
                        name="policy_rule_enabled",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scope", "identifier"), name="policy_rule_unique_in_scope"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("identifier__regex", "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z")),
                        name="policy_rule_identifier_is_valid",
                    ),
                ],
            },
        ),
    ]
