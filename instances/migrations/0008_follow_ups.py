from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("instances", "0007_indexes_of_lists")]

    operations = [
        migrations.AddField("syncedcluster", "listed_at", models.DateTimeField(null=True)),
        migrations.AddField("syncedcluster", "follows_at", models.DateTimeField(null=True)),
    ]
