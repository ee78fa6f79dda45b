"""Log chunks hold columns, compressed, and nothing beside them."""

import json
import zlib
from datetime import UTC, datetime, timedelta
from itertools import groupby

from django.db import migrations, models

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _kind(line):
    return line["step"], line["unit"], line["level"], "aws" if line["level"] == "event" else "slipway"


def _block(lines):
    times = [(datetime.fromisoformat(line["at"]) - EPOCH) // timedelta(microseconds=1) for line in lines]
    return {
        "first": lines[0]["number"],
        "at": [times[0], *(late - early for early, late in zip(times, times[1:], strict=False))],
        "kinds": [[len(list(same)), *kind] for kind, same in groupby(lines, key=_kind)],
        "texts": [line["text"] for line in lines],
    }


def to_columns(apps, schema_editor):
    chunks = apps.get_model("deployments", "LogChunk").objects.order_by("pk")
    for chunk in chunks.iterator(chunk_size=50):
        lines = json.loads(zlib.decompress(chunk.packed)) if chunk.packed else chunk.lines
        chunk.is_packed = bool(chunk.packed)
        body = json.dumps(_block(lines), ensure_ascii=False, separators=(",", ":"))
        chunk.packed = zlib.compress(body.encode(), 6)
        chunk.save(update_fields=["packed", "is_packed"])


class Migration(migrations.Migration):
    dependencies = [("deployments", "0004_keep_current_versions")]

    operations = [
        migrations.AddField("logchunk", "is_packed", models.BooleanField(default=False)),
        migrations.RunPython(to_columns, migrations.RunPython.noop, elidable=True),
        migrations.RemoveField("logchunk", "lines"),
        migrations.AlterField("logchunk", "packed", models.BinaryField()),
    ]
