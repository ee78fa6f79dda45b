"""Terraform tasks: what the program is told, how it is stopped, and what a delegate without it says."""

import os
import threading
from pathlib import Path

import pytest

from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from delegates.agent.isolation import CannotIsolate
from tests.delegates.agent.held_tasks import MemoryLog, create_task, get_error, open_to_all_users, run_task
from tests.fixtures.processes import wait_until
from tests.stories.terraform.conftest import MAIN, States, needs_terraform, states

__all__ = ["states"]
SLOW = (
    MAIN
    + 'resource "terraform_data" "slow" {\n  provisioner "local-exec" {\n    command = "sleep 60"\n  }\n}\n'
)


def _build_params(states: States | None = None, **params: object) -> dict[str, object]:
    inputs = {"backend": states.backend()} if states else {}
    return {
        "command": "apply",
        "files": {"main.tf": MAIN},
        "environment": {"TF_VAR_name": "blue"},
        "inputs": inputs,
        **params,
    }


def _create_wrapper(folder: Path, name: str) -> None:
    """Create a program that prints its arguments and passes them to Terraform."""
    program = folder / name
    program.write_text('#!/bin/sh\necho "given: $*" >&2\nexec terraform "$@"\n')
    program.chmod(0o755)
    # Tasks are not of this user.
    folder.chmod(0o755)


def _install_program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have the agent find this script as its Terraform."""
    program = folder / "terraform"
    program.write_text(text)
    program.chmod(0o755)
    open_to_all_users(folder)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


# What only names a backend, and shows far more than a plan has.
_BOASTER = """#!/bin/sh
case "$1" in
  init) echo '{"backend": {"type": "s3"}}' > "$TF_DATA_DIR/terraform.tfstate" ;;
  show) truncate -s 33M "$TF_DATA_DIR/../out/printed" ;;
esac
"""


def test_the_agent_reads_no_more_of_a_file_than_its_memory_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_program(tmp_path, monkeypatch, _BOASTER)
    error = get_error(run_task("terraform", _build_params(command="plan")))
    assert (error["code"], error["message"]) == ("OutputsTooLarge", "printed is larger than 32,768 KiB")


# What applies, and then shows outputs that are too large.
_TALKER = """#!/bin/sh
case "$1" in
  init) echo '{"backend": {"type": "s3"}}' > "$TF_DATA_DIR/terraform.tfstate" ;;
  apply) echo '{"type":"change_summary","changes":{"add":1,"change":0,"remove":0}}' ;;
  output) head -c 300000 /dev/zero | tr '\\0' x ;;
esac
"""


def test_outputs_that_are_too_large_do_not_hide_that_something_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_program(tmp_path, monkeypatch, _TALKER)
    result = run_task("terraform", _build_params())
    assert get_error(result)["code"] == "ProgramFailed"
    assert result.result is not None
    assert (result.result["begun"], result.result["command"]) == (True, "output")
    assert "outputs are larger than" in result.result["errors"][0]


def test_what_fails_after_the_change_is_not_begun_again_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_program(tmp_path, monkeypatch, _TALKER)

    def refuse(*_: object) -> str:
        raise CannotIsolate("no more processes")

    monkeypatch.setattr("delegates.agent.executors.terraform._Run._run_unlogged", refuse)
    result = run_task("terraform", _build_params())
    assert not get_error(result)["capability"]
    assert result.result is not None
    assert result.result["begun"]


@needs_terraform
def test_terragrunt_gets_the_arguments_that_terraform_gets(
    states: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _create_wrapper(tmp_path, "terragrunt")
    lines = MemoryLog()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = run_task(
        "terraform",
        _build_params(states, program="terragrunt", targets=["terraform_data.cluster"]),
        lines=lines,
    )
    assert result.status == "SUCCEEDED", result
    assert result.result is not None
    assert result.result["outputs"]["cluster_name"] == {"value": "blue", "is_secret": False}
    arguments = [
        " ".join(argument for argument in line.split() if not argument.startswith("-backend-config=/"))
        for line in (line.removeprefix("given: ") for line in lines if line.startswith("given: "))
    ]
    assert arguments == [
        "init -input=false -no-color",
        "apply -json -input=false -no-color -auto-approve -target=terraform_data.cluster",
        "output -json -no-color",
    ]


@needs_terraform
def test_a_program_that_is_stopped_leaves_its_state_in_order(states: States) -> None:
    lines = MemoryLog()
    task = create_task("terraform", _build_params(states, files={"main.tf": SLOW}))
    results: list[TaskResult] = []
    thread = threading.Thread(target=lambda: results.append(execute_task(task, ExecutorContext(lines))))
    thread.start()
    wait_until(lambda: any("cluster: Creation complete" in line for line in lines), "the first resource")
    task.stopped.set()
    thread.join()
    (result,) = results
    assert result.result is not None
    assert (result.status, result.result["ended"], result.result["begun"]) == ("FAILED", "STOPPED", True)
    assert states.inputs()[0] == "blue"
    assert not states.locks


@needs_terraform
@pytest.mark.parametrize("path", ["../main.tf", "/etc/main.tf", "a/../../main.tf"])
def test_no_file_is_written_outside_of_the_task(states: States, path: str) -> None:
    result = run_task("terraform", _build_params(states, files={path: MAIN, "main.tf": MAIN}))
    assert get_error(result)["code"] == "BadParameters"


@needs_terraform
def test_what_a_delegate_was_given_is_not_seen_by_the_program(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELEGATE_TOKEN", "slp_dlt_hidden")
    lines = MemoryLog()
    configuration = MAIN + (
        'resource "terraform_data" "look" {\n'
        '  provisioner "local-exec" {\n    command = "env; echo end-of-it"\n  }\n}\n'
    )
    result = run_task("terraform", _build_params(states, files={"main.tf": configuration}), lines=lines)
    assert result.status == "SUCCEEDED", result
    assert any("end-of-it" in line for line in lines)
    assert "slp_dlt_hidden" not in "\n".join(lines)


def test_a_delegate_without_the_program_lacks_a_capability(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = get_error(run_task("terraform", _build_params()))
    assert (error["code"], error["capability"]) == ("NoTerraform", True)
    assert "install it in its image" in error["message"]


def test_a_wrong_path_of_a_task_is_no_fault_of_the_delegate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _install_program(tmp_path, monkeypatch, _TALKER)
    error = get_error(run_task("terraform", _build_params(environment={"PATH": "/nowhere"})))
    assert (error["code"], error["capability"]) == ("BadParameters", False)
    assert error["message"] == "the variable PATH of the task has no folder with terraform"


def test_a_program_that_only_the_path_of_the_task_has_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as installed:
        _install_program(tmp_path, installed, _TALKER)
        path = os.environ["PATH"]
    monkeypatch.setenv("PATH", os.defpath)
    assert (
        get_error(run_task("terraform", _build_params(environment={"PATH": path})))["code"] == "ProgramFailed"
    )


def test_a_delegate_that_runs_no_scripts_runs_no_configuration_either() -> None:
    result = execute_task(
        create_task("terraform", _build_params()), ExecutorContext(MemoryLog(), blocks_shell=True)
    )
    assert get_error(result)["code"] == "ShellBlocked"
