"""Scripts of shell tasks: what they see, what is heard of them, and that nothing of them stays."""

import os
import threading
from pathlib import Path

import pytest

from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from tests.delegates.agent.held_tasks import (
    MemoryLog,
    choose_duration,
    create_task,
    get_error,
    list_sleepers,
    open_to_all_users,
    run_task,
)
from tests.fixtures.processes import wait_until
from tests.fixtures.time_limits import promised


def run_script(
    script: str, *, lines: MemoryLog | None = None, mask: tuple[str, ...] = (), **params: object
) -> TaskResult:
    return run_task("shell", {"script": script, **params}, lines=lines, mask=mask)


def test_lines_and_exit_code_of_a_script_are_told() -> None:
    lines = MemoryLog()
    result = run_script("echo one; echo two >&2; exit 3", lines=lines)
    assert lines == ["one", "two"]
    assert (result.status, result.result) == ("FAILED", {"exit_code": 3, "outputs": {}})
    assert "exited with code 3" in get_error(result)["message"]


@pytest.mark.parametrize("interpreter", ["bash", "sh"])
@pytest.mark.parametrize("end", ["", "exit 0", "set -eu"])
def test_wanted_variables_come_back_however_the_script_ends(interpreter: str, end: str) -> None:
    script = f"IMAGE='nginx: \"1.27\"'\nTEXT='two\nlines'\nOTHER=x\n{end}"
    result = run_script(script, outputs=["IMAGE", "TEXT", "MISSING"], interpreter=interpreter)
    assert result.status == "SUCCEEDED"
    assert result.result is not None
    assert result.result["outputs"] == {"IMAGE": 'nginx: "1.27"', "TEXT": "two\nlines", "MISSING": ""}


def test_inputs_are_variables_and_never_become_script() -> None:
    lines = MemoryLog()
    run_script('echo "$MESSAGE"', lines=lines, environment={"MESSAGE": "$(id) `id` ; id"})
    assert lines == ["$(id) `id` ; id"]


def test_a_script_does_not_see_the_token_of_the_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HARNESS_TOKEN", "DELEGATE_TOKEN", "AWS_SECRET_ACCESS_KEY", "PROXY_PASSWORD"):
        monkeypatch.setenv(name, "slp_dlt_hidden")
    lines = MemoryLog()
    run_script("env; echo done", lines=lines)
    assert lines[-1] == "done"
    assert "slp_dlt_hidden" not in "\n".join(lines)


def test_each_script_has_a_folder_of_its_own_that_goes_with_it() -> None:
    lines = MemoryLog()
    run_script("pwd; echo $HOME; echo $TMPDIR; ls -ld . | cut -c1-10; echo left > file", lines=lines)
    folder, home, temp_folder, mode = lines
    assert folder == home == temp_folder
    assert mode == "drwx------"
    assert not Path(folder).exists()


def test_secrets_are_hidden_in_the_log_and_in_the_error() -> None:
    lines = MemoryLog()
    secret = "s3cr3t-value"
    run_script(
        f"echo the {secret}; printf {secret} | base64; echo {secret} | cut -c1-6 ",
        lines=lines,
        mask=(secret,),
    )
    assert secret not in "\n".join(lines)
    assert lines[0] == "the •••"
    assert "czNjcjN0LXZhbHVl" not in lines[1]


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
@pytest.mark.parametrize("start", ["http://", ""])
def test_the_password_of_the_proxy_is_hidden_in_the_log(
    monkeypatch: pytest.MonkeyPatch, name: str, start: str
) -> None:
    monkeypatch.setenv(name, f"{start}me:pass%40word@proxy.example:3128")
    lines = MemoryLog()
    run_script(f"echo ${name}; echo 'pass@word'; printf me:pass@word | base64", lines=lines)
    assert lines[:2] == [f"{start}me:•••@proxy.example:3128", "•••"]
    assert "cGFzc0B3b3Jk" not in lines[2]
    assert "YXNzQHdvcm" not in lines[2]


def test_a_script_that_takes_too_long_is_killed_with_all_it_started() -> None:
    lines, duration = MemoryLog(), choose_duration()
    script = f"sleep {duration} & trap '' TERM; echo started; while :; do sleep 0.1; done"
    result = run_task("shell", {"script": script}, lines=lines, timeout_seconds=1.5)
    assert get_error(result)["code"] == "TimedOut"
    assert lines == ["started"]
    assert not list_sleepers(duration)


def test_an_aborted_script_ends_at_once() -> None:
    lines = MemoryLog()
    task = create_task("shell", {"script": "echo started; sleep 600"})
    results: list[TaskResult] = []
    thread = threading.Thread(target=lambda: results.append(execute_task(task, ExecutorContext(lines))))
    thread.start()
    wait_until(lambda: lines, "the first line")
    with promised(4):
        task.stopped.set()
        thread.join(40)
    assert results[0].status == "ABORTED"


def test_what_a_script_leaves_in_the_background_ends_with_it() -> None:
    lines, duration = MemoryLog(), choose_duration()
    result = run_script(f"sleep {duration} & kill -0 $! && echo runs", lines=lines)
    assert (result.status, lines) == ("SUCCEEDED", ["runs"])
    assert not list_sleepers(duration)


def test_a_delegate_may_refuse_all_scripts() -> None:
    result = execute_task(
        create_task("shell", {"script": "echo hello"}), ExecutorContext(MemoryLog(), blocks_shell=True)
    )
    assert get_error(result)["code"] == "ShellBlocked"
    assert "SLIPWAY_DELEGATE_BLOCK_SHELL" in get_error(result)["message"]


@pytest.mark.parametrize(
    "params",
    [{"outputs": ["a b"]}, {"environment": {"A=B": "c"}}, {"interpreter": "python"}, {"outputs": ["$(id)"]}],
)
def test_names_that_could_become_script_are_refused(params: dict[str, object]) -> None:
    assert get_error(run_script("echo", **params))["code"] == "BadParameters"


def test_a_script_whose_interpreter_is_missing_may_go_to_another_delegate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all_users(tmp_path)
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    error = get_error(run_script("echo", interpreter="bash"))
    assert (error["code"], error["capability"]) == ("NoInterpreter", True)
    assert run_script("echo", interpreter="sh").status == "SUCCEEDED"


def test_a_wrong_path_of_a_script_is_no_lack_of_the_delegate() -> None:
    error = get_error(run_script("echo", environment={"PATH": "/nowhere"}))
    assert (error["code"], error["capability"]) == ("ScriptFailed", False)


def test_a_variable_that_no_program_can_take_is_no_lack_of_the_delegate() -> None:
    error = get_error(run_script("echo", environment={"BIG": "x" * 131_072}))
    assert (error["code"], error["capability"]) == ("BadParameters", False)
    assert "128 KiB" in error["message"]


def test_outputs_have_a_limit() -> None:
    result = run_script("BIG=$(head -c 300000 /dev/zero | tr '\\0' x)", outputs=["BIG"])
    assert get_error(result)["code"] == "OutputsTooLarge"


def test_a_line_without_end_and_broken_bytes_are_told() -> None:
    lines = MemoryLog()
    run_script("printf 'caf\\303\\251 \\377 \\000 end'", lines=lines)
    assert lines == ["café \ufffd \ufffd end"]


def test_scripts_may_open_a_limited_number_of_files() -> None:
    lines = MemoryLog()
    run_script("ulimit -n; ulimit -c", lines=lines)
    assert lines == ["1024", "0"]


def test_nothing_is_left_in_the_environment_of_the_agent() -> None:
    before = dict(os.environ)
    run_script("export SOMETHING=else")
    assert dict(os.environ) == before
