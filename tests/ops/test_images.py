"""What the images contain, from the steps that their Dockerfile calls, and that every role starts from it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "deploy" / "images" / "install.sh"
# What is in /srv/slipway, and nothing else.
SLIPWAY_SOURCES = {
    *(
        "accounts",
        "aws",
        "catalog",
        "cli",
        "config",
        "connectors",
        "delegates",
        "deployments",
        "gitsync",
        "guards",
        "inventory",
    ),
    *(
        "manage.py",
        "notifications",
        "ops",
        "pipelines",
        "policies",
        "pyproject.toml",
        "rbac",
        "sandbox",
        "static",
        "steps",
        "templates",
    ),
    "web",
}
DELEGATE_SOURCES = {"aws", "delegates", "guards", "ops", "pyproject.toml"}
OPTIONAL = {"site"}
# Variables of a test run that a build does not have.
OF_TESTS = ("DJANGO_", "SLIPWAY_", "PYTHON", "DATABASE_", "REDIS_", "PYTEST_")


def install(step: str, image: str, root: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OF_TESTS)}
    subprocess.run([INSTALL, step, image, root], check=True, env=environment, cwd="/")


@pytest.mark.parametrize(
    ("image", "expected"), [("slipway", SLIPWAY_SOURCES), ("delegate", DELEGATE_SOURCES)]
)
def test_an_image_has_the_code_of_its_roles_and_no_other(
    image: str, expected: set[str], tmp_path: Path
) -> None:
    install("sources", image, tmp_path)

    sources = tmp_path / "srv" / "slipway"
    assert {path.name for path in sources.iterdir()} - OPTIONAL == expected
    files = [path for path in sources.rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix == ".pyc" or path.stat().st_mode & 0o022] == []
    if image == "delegate":
        assert {path.name for path in (sources / "delegates").iterdir()} == {"__init__.py", "agent"}
        assert [path.name for path in (sources / "ops").iterdir()] == ["slipway-delegate"]


def test_every_package_that_production_imports_is_in_the_image(tmp_path: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "*/__init__.py"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()
    packages = {path.partition("/")[0] for path in tracked if path.count("/") == 1}

    assert packages - SLIPWAY_SOURCES == {"benchmarks", "tests"}


def test_the_dockerfile_installs_only_by_the_tested_steps() -> None:
    text = (ROOT / "Dockerfile").read_text()
    without_docs = re.sub(r"FROM \S+ AS docs.*?(?=^FROM )", "", text, flags=re.DOTALL | re.MULTILINE)

    assert "@sha256:" in text
    runs = [
        step for line in re.findall(r"^RUN (.+)$", without_docs, re.MULTILINE) for step in line.split(" && ")
    ]
    assert {step.split()[0] for step in runs} == {"/build/deploy/images/install.sh", "rm"}
    assert text.count("HEALTHCHECK") == 2
    assert re.search(r"^USER slipway$", text, re.MULTILINE)
