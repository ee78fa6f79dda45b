"""List of frozen migrations: `make freeze-migrations` adds new ones, and refuses changed ones.

A backup names the migrations that its tables come from. So what a name stands for never changes.
"""

import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("frozen_migrations.txt")


def hash_migrations(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each migration below a folder, by its path."""
    paths = [path for path in root.glob("*/migrations/*.py") if path.name != "__init__.py"]
    return {str(path.relative_to(root)): sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def read_list(file: Path) -> dict[str, str]:
    """Return the frozen migrations of a list, which `sha256sum --check` reads too."""
    rows = (line.split("  ") for line in file.read_text().splitlines())
    return {path: digest for digest, path in rows}


def find_problems(present: dict[str, str], frozen: dict[str, str]) -> list[str]:
    """Return what is wrong with frozen migrations, one sentence each."""
    return [
        f"{path} {'was changed' if path in present else 'is gone'}: databases have it as it was. Restore it, "
        "and add a new migration (docs/contributing/upgrades.md)."
        for path, digest in frozen.items()
        if present.get(path) != digest
    ]


def main(root: Path = ROOT, file: Path = LIST) -> int:
    """Add the new migrations to the list, or print why that is refused."""
    present, frozen = hash_migrations(root), read_list(file)
    if problems := find_problems(present, frozen):
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    file.write_text("".join(f"{digest}  {path}\n" for path, digest in present.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
