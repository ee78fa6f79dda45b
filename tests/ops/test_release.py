"""A commit is released only in a state that its version describes."""

import subprocess
from datetime import date
from pathlib import Path

import pytest

from ops import release

VERSION = release.AGENT_VERSION


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a dated changelog, and everything committed."""
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} - 2026-11-25\n")
    for command in (
        ["init", "--quiet"],
        ["config", "user.email", "mona@example.com"],
        ["config", "user.name", "Mona"],
        ["add", "."],
        ["commit", "--quiet", "--message", "Start"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_dated_and_committed_version_can_be_released(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert release.find_problems(VERSION, checkout) == [
        f"delegates/releases.py lacks {VERSION} with the date 2026-11-25 of CHANGELOG.md."
    ]
    monkeypatch.setattr(release, "RELEASE_DATES", {VERSION: date(2026, 11, 25)})
    assert release.find_problems(VERSION, checkout) == []


def test_agent_and_product_have_one_version(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## 9.0.0 - 2026-11-25\n")

    assert f"delegates/agent says version {VERSION}, pyproject.toml 9.0.0." in release.find_problems(
        "9.0.0", checkout
    )


def test_a_version_without_a_date_or_with_changes_or_a_tag_is_refused(checkout: Path) -> None:
    subprocess.run(["git", "tag", f"v{VERSION}"], cwd=checkout, check=True)
    (checkout / "CHANGELOG.md").write_text(f"## {VERSION} - unreleased\n")

    assert release.find_problems(VERSION, checkout) == [
        f"CHANGELOG.md says “unreleased” in place of the date of {VERSION}.",
        "There are changes that are not committed.",
        f"v{VERSION} is tagged already. Raise the version in pyproject.toml.",
    ]
