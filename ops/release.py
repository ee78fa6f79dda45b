"""Release of the checked-out commit: checks, then an annotated tag (`make release`)."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from delegates.agent import VERSION as AGENT_VERSION
from delegates.releases import RELEASE_DATES

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Tag the commit with the version of pyproject.toml, or print why it cannot be released."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if problems := find_problems(version, ROOT):
        print("This commit cannot be released:", *problems, sep="\n  ", file=sys.stderr)
        return 1
    _run_git(ROOT, "tag", "--annotate", f"v{version}", "--message", f"Slipway {version}")
    print(f"Tagged v{version}. Publish it: git push origin v{version}")
    return 0


def find_problems(version: str, root: Path) -> list[str]:
    """Return what keeps the checkout in `root` from being released as `version`, one sentence each."""
    problems = []
    if version != AGENT_VERSION:
        problems.append(f"delegates/agent says version {AGENT_VERSION}, pyproject.toml {version}.")
    heading = re.search(
        rf"^## {re.escape(version)} - (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    if heading is None:
        problems.append(f"CHANGELOG.md has no heading for {version}.")
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", heading[1]):
        problems.append(f"CHANGELOG.md says “{heading[1]}” in place of the date of {version}.")
    elif str(RELEASE_DATES.get(version)) != heading[1]:
        problems.append(f"delegates/releases.py lacks {version} with the date {heading[1]} of CHANGELOG.md.")
    if _run_git(root, "status", "--porcelain"):
        problems.append("There are changes that are not committed.")
    if _run_git(root, "tag", "--list", f"v{version}"):
        problems.append(f"v{version} is tagged already. Raise the version in pyproject.toml.")
    return problems


def _run_git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
