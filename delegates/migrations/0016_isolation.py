"""What keeps tasks of an instance apart, whose scripts one without isolation has run, and who may share it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("delegates", "0015_task_log_allowance"),
    ]

    operations = [
        migrations.AddField(
            model_name="delegate",
            name="shares_scripts",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="delegateinstance",
            name="isolation",
            field=models.CharField(
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
        migrations.AddField(
            model_name="delegateinstance",
            name="script_scope",
            field=models.CharField(blank=True, default="", max_length=400),
        ),
    ]
