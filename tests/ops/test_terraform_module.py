"""The Terraform module that installs Slipway has the parameters and outputs of the template it creates."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import cfnlint.decode.cfn_yaml
import pytest

from tests.conftest import NO_TERRAFORM, NO_TERRAFORM_PROVIDER

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MODULE = DEPLOY / "terraform"
needs_terraform = pytest.mark.skipif(shutil.which("terraform") is None, reason=NO_TERRAFORM)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    path = DEPLOY / "cloudformation" / "slipway.yaml"
    rows: dict[str, Any] = json.loads(json.dumps(cfnlint.decode.cfn_yaml.load(str(path))))
    return rows


def get_variable_name(parameter: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", parameter).lower()


def read_blocks(file: str, kind: str) -> dict[str, str]:
    """Return the blocks of a file by name."""
    text = (MODULE / file).read_text()
    return dict(re.findall(rf'^{kind} "(\w+)" {{\n(.*?)^}}', text, re.DOTALL | re.MULTILINE))


def run_terraform(*arguments: str, folder: Path = MODULE) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"}
    return subprocess.run(
        ["terraform", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_parameter_is_a_variable_with_its_default_and_its_words(template: dict[str, Any]) -> None:
    variables = read_blocks("variables.tf", "variable")
    parameters = template["Parameters"]
    assert set(variables) == {"name", *map(get_variable_name, parameters)}

    passed = re.search(r"parameters = {\n(.*?)\n  }", (MODULE / "main.tf").read_text(), re.DOTALL)
    assert passed is not None
    pairs = dict(re.findall(r"^    (\w+) += .*?var\.(\w+)", passed[1], re.MULTILINE))
    assert pairs == {name: get_variable_name(name) for name in parameters}
    for name, parameter in parameters.items():
        block = variables[get_variable_name(name)]
        assert f'description = "{parameter["Description"]}"' in block
        default = re.search(r"default += (.+)", block)
        assert (default is not None) == ("Default" in parameter)
        if default is not None:
            assert default[1].strip('"').replace("[]", "") == str(parameter["Default"])


def test_every_output_of_the_stack_is_one_of_the_module(template: dict[str, Any]) -> None:
    outputs = read_blocks("outputs.tf", "output")
    assert set(outputs) == {get_variable_name(name) for name in template["Outputs"]}
    assert all(f'outputs["{name}"]' in outputs[get_variable_name(name)] for name in template["Outputs"])


@needs_terraform
def test_terraform_reads_the_module_and_would_write_it_so() -> None:
    run = run_terraform("fmt", "-check", "-diff")
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


@needs_terraform
def test_terraform_accepts_the_module(tmp_path: Path) -> None:
    folder = shutil.copytree(DEPLOY, tmp_path / "deploy") / "terraform"
    if (prepared := run_terraform("init", "-backend=false", "-input=false", folder=folder)).returncode:
        pytest.skip(f"{NO_TERRAFORM_PROVIDER}: {prepared.stderr[-300:]}")
    run = run_terraform("validate", "-no-color", folder=folder)
    assert (run.returncode, run.stderr) == (0, "")
