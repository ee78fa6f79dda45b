from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("gitsync", "0004_proposals"),
    ]

    operations = [
        migrations.AddField(
            model_name="gitsync",
            name="claims",
            field=models.JSONField(blank=True, db_default=[], default=list, editable=False),
        ),
    ]
