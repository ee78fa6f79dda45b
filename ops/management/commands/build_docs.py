"""`manage.py build_docs`: the documentation as a site, which the product serves under /docs/."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

ROOT = Path(__file__).resolve().parents[3]


class Command(BaseCommand):
    """Build the documentation; a broken link fails."""

    help = "Build the documentation, including the reference pages generated from code."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--folder", type=Path, default=settings.DOCUMENTATION_ROOT)

    def handle(self, *args: Any, **options: Any) -> None:
        if find_spec("mkdocs") is None:
            raise CommandError("MkDocs is not installed here. Run `make docs`, which installs it.")
        build_site(options["folder"])
        self.stdout.write(f"The documentation is in {options['folder']}; Slipway serves it under /docs/.")


def build_site(folder: Path) -> None:
    """Build into a new folder and swap it in; a failed build leaves the site unchanged."""
    new = folder.with_name(f"{folder.name}.new")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(new)]
    # MkDocs Material announces its successor in each build: docs/contributing/documentation.md.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        shutil.rmtree(new, ignore_errors=True)
        raise CommandError("The documentation was not built; the lines above say why.")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
