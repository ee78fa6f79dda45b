"""The lock files pin everything and name no place to fetch it from."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock", "delegates/agent/requirements.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_address(name: str) -> None:
    text = (ROOT / name).read_text()

    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links)\b", text, re.MULTILINE)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_pins_every_package_with_a_hash(name: str) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / name).read_text().strip())
    packages = [entry for entry in entries if not entry.startswith("#")]

    assert len(packages) > 10
    assert [entry.splitlines()[0] for entry in packages if "--hash=sha256:" not in entry] == []
    assert [entry.splitlines()[0] for entry in packages if "==" not in entry.splitlines()[0]] == []


def test_development_lock_holds_everything_the_other_ones_do() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[A-Za-z0-9._-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))

    assert pins(LOCKS[0]) - pins(LOCKS[1]) == set()
    # The agent runs with the versions that it was tested with.
    assert pins(LOCKS[2]) - pins(LOCKS[0]) == set()
