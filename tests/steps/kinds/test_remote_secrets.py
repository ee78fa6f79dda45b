"""Steps whose secrets a delegate reads in their manager first."""

import pytest

from connectors.models import Secret
from connectors.operations import create_connector, create_secret
from connectors.secret_managers.base import SecretReference
from connectors.secret_values import clear_cached_values
from delegates.access import secret_reads
from delegates.models import DelegateTask, SecretRead
from deployments.models import AwsCall, Execution
from rbac.models import Scope, User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.vault import TOKEN, VaultServer
from tests.secret_watch.marker import planted
from tests.steps.kinds.conftest import Worker
from tests.steps.kinds.test_script import script_step, serve_until_over

pytestmark = pytest.mark.django_db(transaction=True)

READ = "/v1/secret/data/prod/db"
VALUE = planted("from-the-vault")
OPTIONS = "environmentVariables: [{name: TOKEN, type: Secret, value: token}]\n"


@pytest.fixture
def ready(write: Write, drive: Drive, vault: VaultServer, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """A pipeline with a script that needs a secret of a Vault which only delegates reach."""
    clear_cached_values()
    # The delegate of the test works only between the passes.
    monkeypatch.setattr(secret_reads, "WAIT_SECONDS", 0.0)
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    login = create_secret(actor=admin, scope=project, identifier="login", name="Login", value=TOKEN)
    route = {"connect_through": "Delegate", "delegate_selectors": ["scripts"]}
    connector = create_connector(
        actor=admin,
        scope=project,
        identifier="vault",
        name="Vault",
        kind="Vault",
        spec={"url": vault.url, "authentication": "Token", **route},
        secret=login,
    )
    reference = SecretReference("Vault", connector, "prod/db", "password")
    create_secret(actor=admin, scope=project, identifier="token", name="Token", reference=reference)
    made = write(
        pipeline_text(stage_text(script_step('echo "it is $TOKEN, ${#TOKEN} long"', options=OPTIONS)))
    )
    made.deployer = admin
    return made


def test_a_script_gets_a_value_that_its_delegate_has_read_and_no_log_shows_it(
    ready: Drive, drive: Drive, worker: Worker, vault: VaultServer
) -> None:
    execution = serve_until_over(drive, ready.start(), worker)
    assert execution.status == "SUCCESS", execution.failure
    log = drive.log(execution)
    assert f"it is •••, {len(VALUE)} long" in log
    assert any("A delegate reads the secret token in its secret manager" in line for line in log)
    assert vault.count(READ) == 1
    assert "execution" in Secret.objects.get(identifier="token").last_read_by
    assert VALUE not in "".join(call.parameters + call.result for call in AwsCall.objects.all())


def test_a_worker_that_dies_before_the_answer_leaves_one_value_and_one_script(
    ready: Drive, drive: Drive, worker: Worker, vault: VaultServer
) -> None:
    execution = ready.start()
    _begin_read(drive)
    task = worker.take()
    assert task is not None
    # The agent is lost with the value; another pass asks again.
    secret_reads.SecretReadOwner().record_lost(task)
    execution = serve_until_over(drive, execution, worker)
    assert execution.status == "SUCCESS", execution.failure
    scripts = DelegateTask.objects.filter(kind=DelegateTask.Kind.SHELL, status="SUCCEEDED")
    assert (vault.count(READ), scripts.count()) == (1, 1)


def test_a_refusal_by_the_manager_fails_the_step_with_its_fix(
    ready: Drive, drive: Drive, worker: Worker, vault: VaultServer
) -> None:
    vault.denied.add("prod/db")
    execution = serve_until_over(drive, ready.start(), worker)
    assert execution.failure is not None
    assert execution.failure["code"] == "SECRET_UNREADABLE"
    assert "Add this to a policy of the login" in execution.failure["message"]


def _begin_read(drive: Drive) -> SecretRead:
    for _ in range(20):
        drive.reconcile()
        if (read := SecretRead.objects.filter(is_open=True).first()) is not None:
            return read
        drive.clock.move(1)
    raise AssertionError("no secret was read")


def test_an_execution_waits_for_the_delegate_that_is_away_and_says_why(
    ready: Drive, drive: Drive, worker: Worker
) -> None:
    worker.instance.status = "DISCONNECTED"
    worker.instance.save()
    execution: Execution = ready.start()
    _begin_read(drive)
    for _ in range(5):
        drive.clock.move(5)
        drive.reconcile()
    execution.refresh_from_db()
    assert execution.status == "RUNNING"
    assert any("A delegate reads the secret token" in line for line in drive.log(execution))
    worker.instance.status = "REGISTERED"
    worker.instance.save()
    assert serve_until_over(drive, execution, worker, most=120).status == "SUCCESS"
