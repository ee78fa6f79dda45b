"""Scripts that prepare the delegate: INIT_SCRIPT, then its configuration's script."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from delegates.agent.agent import Agent, NotRegistered, log
from delegates.agent.executors import ExecutorContext, TaskLogSink, TaskResult, execute_task
from delegates.agent.isolation import Isolation, IsolationLevel
from delegates.agent.manager_client import Backoff, ManagerUnreachable, RequestRefused
from delegates.agent.tasks import AgentTask, HeldTask

INIT_SECONDS, OUTPUT_CHARACTERS = 600.0, 200_000
TOOLS_FOLDER = "tools"
_TIMED_OUT, _NOT_RUN = 124, 126


def run_configuration_scripts(agent: Agent) -> None:
    """Prepare once, then run the script of a configuration again whenever it changes."""
    if agent.settings.init_script:
        run_script(agent, "INIT_SCRIPT", agent.settings.init_script, seconds=INIT_SECONDS)
    ran = ("", "")
    while not agent.ended.is_set():
        agent.configuration_changed.clear()
        if agent.registered.is_set():
            configuration = agent.configuration or {}
            script = str(configuration.get("script") or "")
            revision = str(configuration.get("secrets_revision") or "")
            is_current = True
            if script.strip() and (script, revision) != ran:
                is_current = _configure(agent, configuration, script, revision)
                ran = (script, revision) if is_current else ("", "")
            if is_current:
                agent.is_prepared.set()
                agent.poll_tasks_now.set()
        agent.configuration_changed.wait(1.0)


@dataclass
class ScriptOutput(TaskLogSink):
    """Last part of a script's output; delegate.log receives each line at once."""

    name: str
    text: str = ""

    def write(self, level: str, text: str) -> None:
        log.info("%s: %s", self.name, text)
        self.text = f"{self.text}{text}\n"[-OUTPUT_CHARACTERS:]


@dataclass(frozen=True)
class ScriptRun:
    """Result of a script run; `started_at` is in seconds since 1970."""

    exit_code: int
    output: str
    started_at: float
    duration_ms: int


def run_script(
    agent: Agent,
    name: str,
    script: str,
    *,
    seconds: float,
    is_of_manager: bool = False,
    secrets: Mapping[str, str] = MappingProxyType({}),
) -> ScriptRun:
    """Run a script until it ends, with its output in delegate.log and its HOME for installed tools.

    The script of a configuration (`is_of_manager`) runs with its own user where tasks do. INIT_SCRIPT runs as
    the agent's user. `secrets` are variables whose values are hidden in the output.
    """
    log.info("Running %s", name)
    started_at, began = time.time(), time.monotonic()
    tools = agent.settings.home / TOOLS_FOLDER
    tools.mkdir(mode=0o755, exist_ok=True)
    tools.chmod(0o755)
    params = {"script": script, "environment": {**secrets, "HOME": str(tools)}}
    task = AgentTask(
        id=name,
        kind="shell",
        fence=0,
        params=params,
        acquired_at=began,
        timeout_seconds=seconds,
        mask=tuple(secrets.values()),
    )
    printed = ScriptOutput(name)
    blocks_shell = is_of_manager and agent.settings.blocks_shell
    level = IsolationLevel.USERS if is_of_manager and agent.isolation.level.has_users else IsolationLevel.NONE
    around = ExecutorContext(printed, blocks_shell, isolation=Isolation(level), tools=tools)
    answer = execute_task(HeldTask(task), around)
    exit_code = _get_exit_code(answer)
    if answer.error:
        log.error("%s failed: %s", name, answer.error["message"])
        printed.text += f"{answer.error['message']}\n"
    else:
        log.info("%s succeeded", name)
    return ScriptRun(exit_code, printed.text, started_at, round((time.monotonic() - began) * 1000))


def _get_exit_code(answer: TaskResult) -> int:
    if answer.result is not None:
        return int(answer.result["exit_code"])
    return _TIMED_OUT if answer.error and answer.error["code"] == "TimedOut" else _NOT_RUN


def _configure(agent: Agent, configuration: Mapping[str, Any], script: str, secrets_revision: str) -> bool:
    """Run the script of a configuration; return False without a run if its secrets have changed."""
    name = f"configuration {configuration.get('name', '')}"
    seconds = float(configuration.get("timeout_seconds") or INIT_SECONDS)
    identity = {"configuration_id": configuration.get("id")}
    secrets: Mapping[str, str] = {}
    if secrets_revision:
        answer = _post(agent, "/agent/v1/configuration/secrets", identity)
        if answer is None:
            return True
        if answer.get("secrets_revision") != secrets_revision:
            # The values belong to a newer script. Without a revision the next heartbeat fetches it.
            agent.configuration = {**configuration, "revision": ""}
            agent.beat_now.set()
            return False
        secrets = {str(variable): str(value) for variable, value in answer["environment"].items()}
    run = run_script(agent, name, script, seconds=seconds, is_of_manager=True, secrets=secrets)
    body = {
        **identity,
        "exit_code": run.exit_code,
        "output": run.output,
        "started_at": run.started_at,
        "duration_ms": run.duration_ms,
    }
    _post(agent, "/agent/v1/configuration", body)
    return True


def _post(agent: Agent, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Post until the manager answers, and return the answer; None after a refusal or the agent's end."""
    backoff = Backoff(first=0.5, most=15)
    while not agent.ended.is_set():
        try:
            return agent.post_with_session(path, body)
        except NotRegistered:
            agent.registered.wait(1.0)
        except ManagerUnreachable:
            agent.ended.wait(backoff.next())
        except RequestRefused as refusal:
            log.warning("The manager refused %s: %s", path, refusal)
            return None
    return None
