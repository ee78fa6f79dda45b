"""Since when nobody hears a delegate, as far as that was told: those that are there count as heard."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("delegates", "0011_forget_variables_of_scripts")]

    operations = [
        migrations.AddField(
            model_name="delegate",
            name="away_since",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AlterField(
            model_name="delegate",
            name="away_since",
            field=models.DateTimeField(default=django.utils.timezone.now, editable=False, null=True),
        ),
    ]
