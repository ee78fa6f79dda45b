"""Channels of chat, mail and paging services, and their options."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="notificationrule",
            name="options",
            field=models.JSONField(db_default={}, default=dict),
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
                        ],
                        default="Webhook",
                        max_length=16,
                    ),
                ),
            ],
        ),
    ]
