"""The release after this one: a copy of the code with another version and one more migration."""

import shutil
import subprocess
from pathlib import Path

from tests.fixtures.processes import ROOT

VERSION = "99.0.0"
# It expands: a column that this release knows nothing of, and whose default the database has.
COLUMN = "upgrade_note"
_FIELD = 'models.CharField(max_length=16, blank=True, default="new", db_default="old")'
_MIGRATION = f'''"""A column that only the next release knows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("deployments", "{{last}}")]
    operations = [migrations.AddField("execution", "{COLUMN}", {_FIELD})]
'''


def copy_next_release(folder: Path) -> Path:
    """Copy the tracked files into a new folder, change version and tables, and return the folder."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    _change_version(folder / "pyproject.toml")
    _add_column(folder / "deployments")
    return folder


def _change_version(project: Path) -> None:
    lines = project.read_text().splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if line.startswith("version = "))
    lines[at] = f'version = "{VERSION}"\n'
    project.write_text("".join(lines))


def _add_column(package: Path) -> None:
    models = package / "models" / "executions.py"
    place = "    status = models.CharField(max_length=32, choices=Status, default=Status.QUEUED)\n"
    text = models.read_text()
    assert place in text
    models.write_text(text.replace(place, f"{place}    {COLUMN} = {_FIELD}\n", 1))
    last = max(path.stem for path in (package / "migrations").glob("0*.py"))
    name = f"{int(last[:4]) + 1:04d}_next_release.py"
    (package / "migrations" / name).write_text(_MIGRATION.format(last=last))
