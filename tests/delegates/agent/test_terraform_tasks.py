"""Terraform tasks: what the program is told, how it is stopped, and what a delegate without it says."""

import os
import threading
from pathlib import Path

import pytest

from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from tests.delegates.agent.held_tasks import Said, error_of, held_task, open_to_all, run
from tests.fixtures.processes import wait_until
from tests.stories.terraform.conftest import MAIN, States, needs_terraform, states

__all__ = ["states"]
SLOW = (
    MAIN
    + 'resource "terraform_data" "slow" {\n  provisioner "local-exec" {\n    command = "sleep 60"\n  }\n}\n'
)


def _asked(states: States | None = None, **params: object) -> dict[str, object]:
    inputs = {"backend": states.backend()} if states else {}
    return {
        "command": "apply",
        "files": {"main.tf": MAIN},
        "environment": {"TF_VAR_name": "blue"},
        "inputs": inputs,
        **params,
    }


def _stand_in(folder: Path, name: str) -> None:
    """A program that says its arguments, and hands them to Terraform."""
    program = folder / name
    program.write_text('#!/bin/sh\necho "given: $*" >&2\nexec terraform "$@"\n')
    program.chmod(0o755)
    # Tasks are not of this user.
    folder.chmod(0o755)


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
    program = tmp_path / "terraform"
    program.write_text(_BOASTER)
    program.chmod(0o755)
    open_to_all(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    error = error_of(run("terraform", _asked(command="plan")))
    assert (error["code"], error["message"]) == ("OutputsTooLarge", "printed is larger than 32,768 KiB")


@needs_terraform
def test_terragrunt_gets_the_arguments_that_terraform_gets(
    states: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stand_in(tmp_path, "terragrunt")
    said = Said()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    answer = run(
        "terraform", _asked(states, program="terragrunt", targets=["terraform_data.cluster"]), said=said
    )
    assert answer.status == "SUCCEEDED", answer
    assert answer.result is not None
    assert answer.result["outputs"]["cluster_name"] == {"value": "blue", "is_secret": False}
    arguments = [
        " ".join(word for word in line.split() if not word.startswith("-backend-config=/"))
        for line in (one.removeprefix("given: ") for one in said if one.startswith("given: "))
    ]
    assert arguments == [
        "init -input=false -no-color",
        "apply -json -input=false -no-color -auto-approve -target=terraform_data.cluster",
        "output -json -no-color",
    ]


@needs_terraform
def test_a_program_that_is_stopped_leaves_its_state_in_order(states: States) -> None:
    said = Said()
    held = held_task("terraform", _asked(states, files={"main.tf": SLOW}))
    answers: list[TaskResult] = []
    thread = threading.Thread(target=lambda: answers.append(execute_task(held, ExecutorContext(said))))
    thread.start()
    wait_until(lambda: any("cluster: Creation complete" in line for line in said), "the first resource")
    held.stopped.set()
    thread.join()
    (answer,) = answers
    assert answer.result is not None
    assert (answer.status, answer.result["ended"], answer.result["begun"]) == ("FAILED", "STOPPED", True)
    assert states.inputs()[0] == "blue"
    assert not states.locks


@needs_terraform
@pytest.mark.parametrize("path", ["../main.tf", "/etc/main.tf", "a/../../main.tf"])
def test_no_file_is_written_outside_of_the_task(states: States, path: str) -> None:
    answer = run("terraform", _asked(states, files={path: MAIN, "main.tf": MAIN}))
    assert error_of(answer)["code"] == "BadParameters"


@needs_terraform
def test_what_a_delegate_was_given_is_not_seen_by_the_program(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELEGATE_TOKEN", "slp_dlt_hidden")
    said = Said()
    main = MAIN + (
        'resource "terraform_data" "look" {\n'
        '  provisioner "local-exec" {\n    command = "env; echo end-of-it"\n  }\n}\n'
    )
    answer = run("terraform", _asked(states, files={"main.tf": main}), said=said)
    assert answer.status == "SUCCEEDED", answer
    assert any("end-of-it" in line for line in said)
    assert "slp_dlt_hidden" not in "\n".join(said)


def test_a_delegate_without_the_program_lacks_a_capability(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = error_of(run("terraform", _asked()))
    assert (error["code"], error["capability"]) == ("NoTerraform", True)
    assert "install it in its image" in error["message"]


def test_a_delegate_that_runs_no_scripts_runs_no_configuration_either() -> None:
    answer = execute_task(held_task("terraform", _asked()), ExecutorContext(Said(), blocks_shell=True))
    assert error_of(answer)["code"] == "ShellBlocked"
