"""Scripts of shell tasks: what they see, what is heard of them, and that nothing of them stays."""

import os
import threading
from pathlib import Path

import pytest

from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from tests.delegates.agent.held_tasks import Said, error_of, held_task, run, sleepers, unique_nap
from tests.fixtures.processes import wait_until
from tests.fixtures.time_limits import promised


def shell(
    script: str, *, said: Said | None = None, mask: tuple[str, ...] = (), **params: object
) -> TaskResult:
    return run("shell", {"script": script, **params}, said=said, mask=mask)


def test_lines_and_exit_code_of_a_script_are_told() -> None:
    said = Said()
    answer = shell("echo one; echo two >&2; exit 3", said=said)
    assert said == ["one", "two"]
    assert (answer.status, answer.result) == ("FAILED", {"exit_code": 3, "outputs": {}})
    assert "exited with code 3" in error_of(answer)["message"]


@pytest.mark.parametrize("interpreter", ["bash", "sh"])
@pytest.mark.parametrize("end", ["", "exit 0", "set -eu"])
def test_wanted_variables_come_back_however_the_script_ends(interpreter: str, end: str) -> None:
    script = f"IMAGE='nginx: \"1.27\"'\nTEXT='two\nlines'\nOTHER=x\n{end}"
    answer = shell(script, outputs=["IMAGE", "TEXT", "MISSING"], interpreter=interpreter)
    assert answer.status == "SUCCEEDED"
    assert answer.result is not None
    assert answer.result["outputs"] == {"IMAGE": 'nginx: "1.27"', "TEXT": "two\nlines", "MISSING": ""}


def test_inputs_are_variables_and_never_become_script() -> None:
    said = Said()
    shell('echo "$MESSAGE"', said=said, environment={"MESSAGE": "$(id) `id` ; id"})
    assert said == ["$(id) `id` ; id"]


def test_a_script_does_not_see_the_token_of_the_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HARNESS_TOKEN", "DELEGATE_TOKEN", "AWS_SECRET_ACCESS_KEY", "PROXY_PASSWORD"):
        monkeypatch.setenv(name, "slp_dlt_hidden")
    said = Said()
    shell("env; echo done", said=said)
    assert said[-1] == "done"
    assert "slp_dlt_hidden" not in "\n".join(said)


def test_each_script_has_a_folder_of_its_own_that_goes_with_it() -> None:
    said = Said()
    shell("pwd; echo $HOME; echo $TMPDIR; ls -ld . | cut -c1-10; echo left > file", said=said)
    folder, home, temporary, mode = said
    assert folder == home == temporary
    assert mode == "drwx------"
    assert not Path(folder).exists()


def test_secrets_are_hidden_in_the_log_and_in_the_error() -> None:
    said = Said()
    secret = "s3cr3t-value"
    shell(
        f"echo the {secret}; printf {secret} | base64; echo {secret} | cut -c1-6 ", said=said, mask=(secret,)
    )
    assert secret not in "\n".join(said)
    assert said[0] == "the •••"
    assert "czNjcjN0LXZhbHVl" not in said[1]


def test_a_script_that_takes_too_long_is_killed_with_all_it_started() -> None:
    said, nap = Said(), unique_nap()
    script = f"sleep {nap} & trap '' TERM; echo started; while :; do sleep 0.1; done"
    answer = run("shell", {"script": script}, said=said, timeout_seconds=1.5)
    assert error_of(answer)["code"] == "TimedOut"
    assert said == ["started"]
    assert not sleepers(nap)


def test_an_aborted_script_ends_at_once() -> None:
    said = Said()
    held = held_task("shell", {"script": "echo started; sleep 600"})
    answers: list[TaskResult] = []
    thread = threading.Thread(target=lambda: answers.append(execute_task(held, ExecutorContext(said))))
    thread.start()
    wait_until(lambda: said, "the first line")
    with promised(4):
        held.stopped.set()
        thread.join(40)
    assert answers[0].status == "ABORTED"


def test_what_a_script_leaves_in_the_background_ends_with_it() -> None:
    said, nap = Said(), unique_nap()
    answer = shell(f"sleep {nap} & kill -0 $! && echo runs", said=said)
    assert (answer.status, said) == ("SUCCEEDED", ["runs"])
    assert not sleepers(nap)


def test_a_delegate_may_refuse_all_scripts() -> None:
    answer = execute_task(
        held_task("shell", {"script": "echo hello"}), ExecutorContext(Said(), blocks_shell=True)
    )
    assert error_of(answer)["code"] == "ShellBlocked"
    assert "SLIPWAY_DELEGATE_BLOCK_SHELL" in error_of(answer)["message"]


@pytest.mark.parametrize(
    "wrong",
    [{"outputs": ["a b"]}, {"environment": {"A=B": "c"}}, {"interpreter": "python"}, {"outputs": ["$(id)"]}],
)
def test_names_that_could_become_script_are_refused(wrong: dict[str, object]) -> None:
    assert error_of(shell("echo", **wrong))["code"] == "BadParameters"


def test_outputs_have_a_limit() -> None:
    answer = shell("BIG=$(head -c 300000 /dev/zero | tr '\\0' x)", outputs=["BIG"])
    assert error_of(answer)["code"] == "OutputsTooLarge"


def test_a_line_without_end_and_broken_bytes_are_told() -> None:
    said = Said()
    shell("printf 'caf\\303\\251 \\377 \\000 end'", said=said)
    assert said == ["café \ufffd \ufffd end"]


def test_scripts_may_open_a_limited_number_of_files() -> None:
    said = Said()
    shell("ulimit -n; ulimit -c", said=said)
    assert said == ["1024", "0"]


def test_nothing_is_left_in_the_environment_of_the_agent() -> None:
    before = dict(os.environ)
    shell("export SOMETHING=else")
    assert dict(os.environ) == before
