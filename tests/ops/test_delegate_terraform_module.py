"""The Terraform module of a delegate creates what the wizard's files do."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from aws.policies import BASE_POLICY
from delegates.install import TokenSecret, write_spec
from delegates.install.specs import FARGATE_STOP_SECONDS, build_secret_name
from tests.conftest import NO_TERRAFORM, NO_TERRAFORM_PROVIDER
from tests.delegates.install.spec_variants import build_request

MODULE = Path(__file__).resolve().parents[2] / "deploy/delegate/terraform"
MAIN, VARIABLES = (MODULE / "main.tf").read_text(), (MODULE / "variables.tf").read_text()
needs_terraform = pytest.mark.skipif(shutil.which("terraform") is None, reason=NO_TERRAFORM)


def run_terraform(*arguments: str, folder: Path = MODULE) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"}
    return subprocess.run(
        ["terraform", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_task_role_has_the_documented_policy() -> None:
    assert json.loads((MODULE / "policy.json").read_text()) == BASE_POLICY.document


def test_the_container_has_the_variables_of_the_generated_files() -> None:
    request = build_request(
        own_names=True, secret=TokenSecret("CREATE"), stop_seconds=FARGATE_STOP_SECONDS, tags=("eu",)
    )
    spec = write_spec(request)
    (container,) = spec.task_definition["containerDefinitions"]
    local = re.search(r"environment = {\n(.*?)\n  }", MAIN, re.DOTALL)
    assert local is not None
    names = set(re.findall(r"^    ([A-Z_]+) +=", local[1], re.MULTILINE))
    assert names == {variable["name"] for variable in container["environment"]}
    assert f'name = "{container["secrets"][0]["name"]}"' in MAIN
    assert re.search(rf'name +<?= "{container["name"]}"', MAIN)
    assert f'name = "{build_secret_name("${var.name}")}"' in MAIN
    for name, suffix in (("serviceName", "service"), ("taskDefinition", "task")):
        assert spec.service[name] == f"{request.name}-{suffix}"
        assert f'"${{var.name}}-{suffix}"' in MAIN


def test_every_variable_is_used_and_described() -> None:
    variables = dict(re.findall(r'^variable "(\w+)" {\n(.*?)^}', VARIABLES, re.DOTALL | re.MULTILINE))
    assert set(variables) == set(re.findall(r"var\.(\w+)", MAIN))
    assert all("description = " in block for block in variables.values())
    assert f"default     = {FARGATE_STOP_SECONDS}" in variables["stop_seconds"]
    assert "sensitive   = true" in variables["token"]


@needs_terraform
def test_terraform_reads_the_module_and_would_write_it_so() -> None:
    run = run_terraform("fmt", "-check", "-diff")
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


@needs_terraform
def test_terraform_accepts_the_module(tmp_path: Path) -> None:
    folder = shutil.copytree(MODULE, tmp_path / "module")
    if (prepared := run_terraform("init", "-backend=false", "-input=false", folder=folder)).returncode:
        pytest.skip(f"{NO_TERRAFORM_PROVIDER}: {prepared.stderr[-300:]}")
    run = run_terraform("validate", "-no-color", folder=folder)
    assert (run.returncode, run.stderr) == (0, "")
