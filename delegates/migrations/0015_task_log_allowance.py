from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("delegates", "0014_attempt_asked")]

    operations = [
        migrations.AddField(
            model_name="delegatetask",
            name="log_bytes_left",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="delegatetask",
            name="log_counted_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="delegatetask",
            name="log_throttled",
            field=models.BooleanField(default=False),
        ),
    ]
