"""A real agent and a real manager: what one says, the other understands."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from connectors.operations import create_connector, create_secret, update_secret
from connectors.secret_managers.base import SecretReference
from connectors.secret_values import read_secret_value
from delegates.models import (
    ConfigurationRun,
    Delegate,
    DelegateConfiguration,
    DelegateInstance,
    DelegateLogChunk,
    DelegateTask,
    DelegateToken,
    TaskLogChunk,
    get_account_id,
)
from delegates.operations.configurations import apply_configuration, create_configuration
from delegates.operations.tasks import abort_task, start_diagnosis, submit_task
from delegates.operations.tokens import create_token
from delegates.queries.tasks import list_findings
from guards.limits import TASK_LOG_RATE
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.connectors.test_aws_sessions import build_token
from tests.delegates.agent.certificates import Certificates
from tests.delegates.agent.fake_servers import start_http_server
from tests.delegates.agent.proxies import start_proxy, terminate_tls
from tests.faults.killable_process import Part
from tests.fixtures.agents import Manager, StartAgent
from tests.fixtures.process_memory import count_heaps
from tests.fixtures.processes import wait_until
from tests.fixtures.script_gates import Gate
from tests.fixtures.vault import ROLE_ID, SECRET_ID, VaultServer
from tests.secret_watch.marker import planted
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)

Begin = Callable[..., Part]
Status = DelegateTask.Status


@pytest.fixture
def token(live_broker: str, transactional_db: None, project: Scope, admin: User) -> DelegateToken:
    return create_token(actor=admin, scope=project, name="agents")


@pytest.fixture
def start_connected(manager: Manager, token: DelegateToken, start_agent: StartAgent) -> Begin:
    """Start an agent and wait until the manager sees it as it is started: with a socket, or polling."""

    def start(name: str = "eu", **variables: str) -> Part:
        environment = {
            "HARNESS_ACCOUNT_ID": get_account_id(),
            "HARNESS_TOKEN": token.value,
            "HARNESS_URL": manager.url,
            "HARNESS_NAME": name,
            "HARNESS_TAGS": "aws,ecs",
            "SLIPWAY_DELEGATE_HEARTBEAT": "1",
            **variables,
        }
        part = start_agent(environment)
        connection = "POLLING" if "SLIPWAY_DELEGATE_NO_SOCKET" in variables else "WEBSOCKET"
        instances = DelegateInstance.objects.filter(delegate__name=name, connection=connection)
        wait_until(instances.exists, f"{name} by {connection}: {part.log}")
        return part

    return start


def submit(project: Scope, kind: str, payload: Mapping[str, Any], **fields: Any) -> DelegateTask:
    # The tag of the agent: what runs in the worker has none of them.
    return submit_task(scope=project, kind=kind, title="a test", payload=payload, selectors=["ecs"], **fields)


def wait_for_end(task: DelegateTask, seconds: float = 30) -> DelegateTask:
    """Wait until the task has ended, and return it."""

    def is_over() -> bool:
        task.refresh_from_db()
        return not task.is_open

    wait_until(is_over, f"the end of {task.pk}", seconds)
    return task


def read_log(task: DelegateTask) -> list[str]:
    chunks = TaskLogChunk.objects.filter(task=task).order_by("sequence")
    return [line["text"] for chunk in chunks for line in json.loads(chunk.lines)]


SHELL = DelegateTask.Kind.SHELL


@pytest.mark.parametrize("variables", [{}, {"SLIPWAY_DELEGATE_NO_SOCKET": "1"}], ids=["socket", "polling"])
def test_a_script_runs_and_its_lines_and_outputs_arrive(
    start_connected: Begin, project: Scope, variables: dict[str, str]
) -> None:
    start_connected(**variables)
    script = "for n in 1 2 3; do echo line $n; done; IMAGE=nginx"
    task = wait_for_end(submit(project, SHELL, {"script": script, "outputs": ["IMAGE"]}))
    assert task.status == Status.SUCCEEDED, task.error
    assert '"nginx"' in task.result
    assert read_log(task) == ["line 1", "line 2", "line 3"]


def test_threads_of_the_web_server_share_two_heaps(start_connected: Begin, manager: Manager) -> None:
    start_connected()
    assert count_heaps(manager.web.pid) <= 2


@pytest.mark.skipif(os.geteuid() != 0, reason="an agent hides its memory from all but root")
def test_threads_of_an_agent_share_one_heap(start_connected: Begin) -> None:
    assert count_heaps(start_connected().pid) == 1


def test_an_aws_call_is_made_with_the_agents_own_credentials(
    start_connected: Begin, project: Scope, pretend_aws: SandboxProcess
) -> None:
    start_connected(AWS_ACCESS_KEY_ID="AKIAEXAMPLE", AWS_SECRET_ACCESS_KEY="example")
    params = {"service": "ecs", "operation": "ListClusters", "params": {}, "region": "us-east-1"}
    payload = {**params, "endpoint_url": pretend_aws.url, "credentials": {"kind": "own"}}
    task = wait_for_end(submit(project, DelegateTask.Kind.AWS, payload))
    assert task.status == Status.SUCCEEDED, task.error
    assert "clusterArns" in task.result


def test_a_secret_is_read_by_the_agent_and_the_reader_waits_for_it(
    start_connected: Begin, project: Scope, admin: User, vault: VaultServer
) -> None:
    start_connected()
    login = create_secret(actor=admin, scope=project, identifier="login", name="Login", value=SECRET_ID)
    route = {"connect_through": "Delegate", "delegate_selectors": ["ecs"]}
    spec = {"url": vault.url, "authentication": "AppRole", "role_id": ROLE_ID, **route}
    connector = create_connector(
        actor=admin, scope=project, identifier="vault", name="V", kind="Vault", spec=spec, secret=login
    )
    reference = SecretReference("Vault", connector, "prod/db", "password")
    secret = create_secret(actor=admin, scope=project, identifier="db", name="DB", reference=reference)
    assert read_secret_value(secret, reader="test") == planted("from-the-vault")
    tasks = DelegateTask.objects.filter(owner="secret-read")
    assert {(task.status, task.result) for task in tasks} == {(Status.SUCCEEDED, "")}


def test_an_agent_assumes_a_role_with_a_token_file_that_its_operator_lists(
    start_connected: Begin, project: Scope, pretend_aws: SandboxProcess, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(build_token({"iss": "https://issuer.example.com"}))
    start_connected(SLIPWAY_DELEGATE_TOKEN_FILES=str(file))
    identity = {"kind": "web_identity", "role_arn": "arn:aws:iam::123456789012:role/deployer"}
    params = {"service": "sts", "operation": "GetCallerIdentity", "params": {}, "region": "us-east-1"}
    payload = {**params, "endpoint_url": pretend_aws.url}
    listed, other = (
        wait_for_end(
            submit(
                project,
                DelegateTask.Kind.AWS,
                payload | {"credentials": identity | {"token_file": path}},
            )
        )
        for path in (str(file), "/run/other")
    )
    assert (listed.status, other.status) == (Status.SUCCEEDED, Status.FAILED), listed.error
    assert (other.error or {})["code"] == "TokenFileNotAllowed"


def test_aborting_a_task_kills_its_script(start_connected: Begin, project: Scope, admin: User) -> None:
    start_connected()
    task = submit(project, SHELL, {"script": "echo started; sleep 600"})
    wait_until(lambda: read_log(task) == ["started"], "the first line")
    task.refresh_from_db()
    abort_task(actor=admin, task=task)
    assert wait_for_end(task, 10).status == Status.ABORTED


def test_told_to_end_an_agent_finishes_what_it_has_and_says_goodbye(
    start_connected: Begin, project: Scope
) -> None:
    part = start_connected()
    task = submit(project, SHELL, {"script": "echo started; sleep 2; echo done"})
    wait_until(lambda: read_log(task) == ["started"], "the first line")
    part.end(20)
    assert wait_for_end(task, 1).status == Status.SUCCEEDED
    assert read_log(task) == ["started", "done"]
    instance = DelegateInstance.objects.get(delegate__is_built_in=False)
    assert instance.status == DelegateInstance.Status.GONE


def test_a_manager_that_goes_away_and_comes_back_gets_everything(
    start_connected: Begin, project: Scope, manager: Manager
) -> None:
    start_connected()
    task = submit(project, SHELL, {"script": "for n in $(seq 40); do echo $n; sleep 0.1; done"})
    wait_until(lambda: len(read_log(task)) > 3, "the first lines")
    manager.kill()
    manager.start()
    assert wait_for_end(task).status == Status.SUCCEEDED
    wait_until(lambda: len(read_log(task)) >= 40, "all lines")
    assert read_log(task) == [str(number) for number in range(1, 41)]


def test_lines_that_the_manager_does_not_take_yet_come_later_and_before_the_answer(
    start_connected: Begin, project: Scope, gate: Gate
) -> None:
    start_connected()
    script = f"echo begun; {gate.passing}; for n in $(seq 40); do echo $n; done"
    task = submit(project, SHELL, {"script": script})
    wait_until(lambda: read_log(task) == ["begun"], "the first line")
    # As after ten minutes' worth of lines, which no machine has to write for this.
    exhausted_bytes = -600 * int(TASK_LOG_RATE)
    DelegateTask.objects.filter(pk=task.pk).update(
        log_bytes_left=exhausted_bytes, log_counted_at=get_database_time()
    )
    gate.is_open.set()
    other = wait_for_end(submit(project, SHELL, {"script": "echo not held up"}))
    assert read_log(other) == ["not held up"]
    task.refresh_from_db()
    assert (task.status, read_log(task)) == (Status.STARTED, ["begun"])
    DelegateTask.objects.filter(pk=task.pk).update(log_bytes_left=None)
    assert wait_for_end(task).status == Status.SUCCEEDED
    assert read_log(task) == ["begun", *(str(number) for number in range(1, 41))]


def test_a_task_that_never_stops_writing_holds_up_the_lines_of_no_other(
    start_connected: Begin, project: Scope, admin: User, gate: Gate
) -> None:
    start_connected()
    flood_task = submit(project, SHELL, {"script": f"yes {'x' * 200}"})
    wait_until(lambda: read_log(flood_task), "the first lines of the flood")
    quiet_task = submit(project, SHELL, {"script": f"echo begun; {gate.passing}"})
    wait_until(lambda: read_log(quiet_task) == ["begun"], "a line of the quiet task", 15)
    gate.is_open.set()
    abort_task(actor=admin, task=flood_task)
    assert wait_for_end(quiet_task).status == Status.SUCCEEDED


def test_the_agents_own_log_arrives_once_across_a_restart(start_connected: Begin) -> None:
    part = start_connected()

    def count_registrations() -> int:
        text = "\n".join(chunk.text for chunk in DelegateLogChunk.objects.order_by("sequence"))
        return text.count("Registered as eu")

    wait_until(lambda: count_registrations() == 1, "the log of the first process")
    part.kill()
    part.start()
    wait_until(lambda: count_registrations() == 2, "the log of the second process")


def test_a_write_that_lay_in_the_agents_socket_for_too_long_is_not_sent(
    start_connected: Begin, project: Scope
) -> None:
    operations: list[str] = []

    def record_operation(request: Any) -> tuple[int, dict[str, str], bytes]:
        operations.append(request.headers["X-Amz-Target"])
        return 200, {}, b"{}"

    with start_http_server(record_operation) as url:
        part = start_connected(SLIPWAY_DELEGATE_NO_SOCKET="1")
        key = {"kind": "access_key", "access_key_id": "AKIAEXAMPLE", "secret_access_key": "example"}
        call = {"service": "ecs", "operation": "UpdateService", "params": {"service": "web"}}
        payload = {**call, "region": "us-east-1", "endpoint_url": url, "credentials": key}
        with pause(part):
            task = submit(project, DelegateTask.Kind.AWS, payload, is_write=True)
            started_tasks = DelegateTask.objects.filter(pk=task.pk, status=Status.STARTED)
            wait_until(started_tasks.exists, "the manager's answer to the waiting poll")
            expiry = get_database_time() + timedelta(seconds=5.5)
            wait_until(lambda: get_database_time() > expiry, "the end of its time")
        task = wait_for_end(task)
    assert task.status == Status.FAILED
    assert "not sent" in task.reason
    assert operations == []


@contextmanager
def pause(part: Part) -> Iterator[None]:
    """Stop a process with SIGSTOP, and continue it afterwards."""
    os.kill(part.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(part.pid, signal.SIGCONT)


def test_scripts_that_prepare_a_delegate_run_before_its_first_task_and_are_reported(
    start_connected: Begin, project: Scope
) -> None:
    install = (
        """mkdir -p "$HOME/bin" && cd "$HOME/bin" && echo 'echo from the tool' > tool && chmod +x tool"""
    )
    part = start_connected(INIT_SCRIPT=f"echo preparing; {install}")
    task = wait_for_end(submit(project, SHELL, {"script": "tool"}))
    assert read_log(task) == ["from the tool"]
    assert "INIT_SCRIPT: preparing" in part.log.read_text()

    configuration = DelegateConfiguration.objects.create(
        scope=project, identifier="tools", name="Tools", script="echo configuring; exit 3"
    )
    Delegate.objects.filter(name="eu").update(configuration=configuration, updated_at=get_database_time())
    wait_until(ConfigurationRun.objects.exists, "the report of the script")
    run = ConfigurationRun.objects.get()
    assert (run.exit_code, run.output.splitlines()[0]) == (3, "configuring")
    assert wait_for_end(submit(project, SHELL, {"script": "echo still here"})).status == Status.SUCCEEDED


def test_a_script_uses_a_secret_and_runs_again_with_its_new_value(
    start_connected: Begin, project: Scope, admin: User
) -> None:
    part = start_connected()
    secret = create_secret(
        actor=admin, scope=project, identifier="token", name="Token", value=planted("-first")
    )
    script = 'value="<+secrets.getValue("token")>"; echo "it is $value"; exit ${#value}'
    configuration = create_configuration(
        actor=admin, scope=project, identifier="tools", name="Tools", script=script
    )
    apply_configuration(
        actor=admin, configuration=configuration, delegates=list(Delegate.objects.filter(name="eu"))
    )
    wait_until(ConfigurationRun.objects.exists, "the report of the script")
    update_secret(actor=admin, secret=secret, value=planted("-the-second"))
    runs = ConfigurationRun.objects.order_by("pk")
    wait_until(lambda: runs.count() == 2, "the report of the script with the new value")
    values = (planted("-first"), planted("-the-second"))
    assert [run.exit_code for run in runs] == [len(value) for value in values]
    assert [run.output.splitlines()[0] for run in runs] == ["it is •••", "it is •••"]
    log = part.log.read_text()
    assert "configuration Tools: it is" in log
    assert not any(value in log for value in values)


def test_an_agent_reaches_its_manager_through_a_proxy(
    start_connected: Begin, manager: Manager, project: Scope
) -> None:
    """The name of the manager is known to the proxy alone."""
    request_heads: list[str] = []
    port = int(manager.url.rpartition(":")[2])
    with start_proxy(("127.0.0.1", port), request_heads) as proxy_port:
        login = {"PROXY_USER": "me", "PROXY_PASSWORD": "p@ss"}
        variables = {"PROXY_HOST": "127.0.0.1", "PROXY_PORT": str(proxy_port), **login}
        part = start_connected(HARNESS_URL="http://manager.invalid:8000", **variables)
        assert wait_for_end(submit(project, SHELL, {"script": "env"})).status == Status.SUCCEEDED
        part.kill()
    assert any(request_head.startswith("CONNECT manager.invalid:8000") for request_head in request_heads)
    assert all(
        "Proxy-Authorization: Basic bWU6cEBzcw==" in _normalize_header(request_head)
        for request_head in request_heads
    )


def _normalize_header(request_head: str) -> str:
    return request_head.replace("proxy-authorization: basic", "Proxy-Authorization: Basic")


def test_an_agent_trusts_a_certificate_that_it_was_given(
    start_connected: Begin, manager: Manager, project: Scope, certificates: Certificates
) -> None:
    port = int(manager.url.rpartition(":")[2])
    with terminate_tls(("127.0.0.1", port), certificates) as tls_port:
        url = f"https://localhost:{tls_port}"
        part = start_connected(HARNESS_URL=url, SLIPWAY_CA_BUNDLE=str(certificates.authority))
        assert wait_for_end(submit(project, SHELL, {"script": "echo"})).status == Status.SUCCEEDED
        part.kill()


def test_a_wrong_token_is_refused_with_a_sentence(
    manager: Manager, start_agent: StartAgent, transactional_db: None, account: Scope
) -> None:
    environment = {"HARNESS_ACCOUNT_ID": get_account_id(), "HARNESS_TOKEN": "slp_dlt_" + "x" * 43}
    part = start_agent({**environment, "HARNESS_URL": manager.url})
    wait_until(lambda: "The manager refused this delegate" in part.log.read_text(), "the refusal")
    assert "token_unknown" in part.log.read_text()
    assert "x" * 43 not in part.log.read_text()


def test_a_diagnosis_reaches_the_page_and_the_program_prints_the_same(
    start_connected: Begin, manager: Manager, token: DelegateToken, admin: User, tmp_path: Path
) -> None:
    start_connected()
    delegate = Delegate.objects.get(name="eu")
    task = wait_for_end(start_diagnosis(actor=admin, delegate=delegate), 60)
    assert task.status == Status.SUCCEEDED, task.reason
    findings = {finding.check: finding.result for finding in list_findings(task)}
    assert [*findings] == [
        "settings",
        "disk",
        "name",
        "connection",
        "TLS and clock",
        "token",
        "WebSocket",
        "AWS",
    ]
    assert {findings[name] for name in ("name", "connection", "TLS and clock", "token", "WebSocket")} == {
        "ok"
    }
    client = Client()
    client.force_login(admin)
    assert "Slipway accepts the token" in client.get(f"/delegates/tasks/{task.pk}/").content.decode()
    # Asking for a challenge makes no instance.
    assert DelegateInstance.objects.filter(delegate=delegate).count() == 1
    environ = {
        **os.environ,
        "HARNESS_ACCOUNT_ID": get_account_id(),
        "HARNESS_TOKEN": token.value,
        "HARNESS_URL": manager.url,
        "SLIPWAY_DELEGATE_HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "delegates.agent", "doctor"]
    printed = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert "ok       WebSocket: WebSockets reach Slipway." in printed.stdout, printed.stdout
    assert printed.returncode == 0
