"""Secrets that a delegate reads in their manager: where the value goes, and what comes without an answer."""

import json
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from aws.clients import AccessKey, Endpoint, get_client
from connectors import secret_values
from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, run_secret_test, update_secret
from connectors.secret_managers.base import SecretPending, SecretReference, SecretUnreadable
from connectors.secret_values import clear_cached_values, fetch_secret_value, read_secret_value
from delegates.access import secret_reads
from delegates.access.lookup_requests import create_lookup_request
from delegates.agent import FEATURES
from delegates.agent.executors.aws import is_allowed_operation
from delegates.models import DelegateTask, LateAnswer, LookupRequest, SecretRead, TaskAttempt
from delegates.protocol.completions import complete_task
from delegates.protocol.result_schemas import get_result_variant
from delegates.retention import erase_old_secret_values
from delegates.task_owners import TaskAnswer
from delegates.task_queue import end_queued_task, route_waiting_tasks
from rbac.models import AuditEntry, Scope, User
from sandbox.process import SandboxProcess
from tests.fixtures.fake_delegates import Hand, hand
from tests.fixtures.vault import ROLE_ID, SECRET_ID, VaultServer
from tests.secret_watch.marker import planted
from web.clock import get_database_time

VALUE = planted("value-of-the-manager")
ROUTE = {"connect_through": "Delegate", "delegate_selectors": ["prod"]}


@pytest.fixture(autouse=True)
def _forget_values() -> None:
    clear_cached_values()


@pytest.fixture
def aws(project: Scope, admin: User, sandbox: SandboxProcess, settings: Settings) -> Connector:
    """An AWS connector whose calls delegates make, and two secrets in its account."""
    settings.ALLOW_AWS_ENDPOINTS = True
    key = AccessKey("AKIASANDBOX", planted("key-of-the-sandbox"))
    managed = get_client(key, "us-east-1", Endpoint(sandbox.url), "secretsmanager")
    managed.create_secret(Name="prod/db", SecretString=json.dumps({"password": VALUE}))
    parameters = get_client(key, "us-east-1", Endpoint(sandbox.url), "ssm")
    parameters.put_parameter(Name="/prod/db", Value=VALUE, Type="SecureString")
    login = create_secret(
        actor=admin, scope=project, identifier="key", name="Key", value=key.secret_access_key
    )
    spec = {"credentials": "AccessKey", "access_key_id": "AKIASANDBOX", "endpoint_url": sandbox.url, **ROUTE}
    return create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec, secret=login)


@pytest.fixture
def make(admin: User, project: Scope) -> Callable[..., Secret]:
    def make_secret(connector: Connector, manager: str, path: str, key: str = "") -> Secret:
        reference = SecretReference(manager, connector, path, key)
        return create_secret(
            actor=admin, scope=project, identifier="db", name="Database", reference=reference
        )

    return make_secret


@pytest.fixture
def secret(aws: Connector, make: Callable[..., Secret]) -> Secret:
    return make(aws, "AwsSecretsManager", "prod/db", "password")


def test_the_task_of_a_connector_above_does_not_name_the_secret(
    aws: Connector, secret: Secret, prod: Hand, project: Scope
) -> None:
    begin(secret)
    assert f"for the secret db of {project}" in DelegateTask.objects.get().title
    DelegateTask.objects.all().delete()
    SecretRead.objects.all().delete()
    Connector.objects.filter(pk=aws.pk).update(scope=Scope.objects.account())
    begin(Secret.objects.get(pk=secret.pk))
    assert DelegateTask.objects.get().title == f"secretsmanager:GetSecretValue for a secret of {aws}"


@pytest.fixture
def prod() -> Hand:
    delegate = hand("prod-eu", tags=("prod",))
    delegate.instance.features = list(FEATURES)
    delegate.instance.save()
    return delegate


def read(secret: Secret) -> str:
    return read_secret_value(secret, reader="execution 1")


def begin(secret: Secret) -> str:
    """Read a secret that no delegate has read yet, and return why it waits."""
    with pytest.raises(SecretPending) as wait:
        read(secret)
    return str(wait.value)


def refusal_of(secret: Secret) -> str:
    with pytest.raises(SecretUnreadable) as refusal:
        read(secret)
    assert not isinstance(refusal.value, SecretPending)
    assert VALUE not in str(refusal.value)
    return str(refusal.value)


def serve_all(delegate: Hand) -> int:
    """Do all that is offered, also what follows from it; gives back how much that was."""
    served_count = 0
    while served := delegate.serve():
        served_count += served
    return served_count


def age(seconds: float) -> None:
    """Let the reads of all secrets be this much older, and a process have forgotten its values."""
    stored = SecretRead.objects.get()
    moments = {
        name: moment - timedelta(seconds=seconds)
        for name in ("value_at", "problem_at", "requested_at")
        if (moment := getattr(stored, name)) is not None
    }
    SecretRead.objects.update(**moments)
    clear_cached_values()


@pytest.mark.parametrize(
    ("manager", "path", "key", "operation"),
    [
        ("AwsSecretsManager", "prod/db", "password", "GetSecretValue"),
        ("AwsParameterStore", "/prod/db", "", "GetParameter"),
    ],
)
def test_a_delegate_reads_the_value_and_no_row_keeps_it(
    aws: Connector,
    make: Callable[..., Secret],
    prod: Hand,
    manager: str,
    path: str,
    key: str,
    operation: str,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    secret = make(aws, manager, path, key)
    assert "A delegate reads the secret db" in begin(secret)
    with django_capture_on_commit_callbacks(execute=True):
        assert prod.serve() == 1
    assert read(secret) == VALUE
    task = DelegateTask.objects.get()
    assert (task.features, task.selectors, prod.taken_operations) == (
        ["secret-managers"],
        ["prod"],
        [operation],
    )
    assert set(task.features) <= set(FEATURES)
    assert is_allowed_operation(prod.payloads[0].params["service"], operation, frozenset())
    # The key that the connector lends is masked.
    assert prod.payloads[0].mask == (planted("key-of-the-sandbox"),)
    secret.refresh_from_db()
    assert (secret.value, secret.last_read_by, secret.last_read_problem) == ("", "execution 1", "")
    with connection.cursor() as cursor:
        cursor.execute("SELECT value, answers FROM delegates_secretread")
        (stored,) = cursor.fetchall()
    assert all(VALUE not in column for column in stored)
    assert SecretRead.objects.get().answers == "[]"
    age(secret_values.CACHE_SECONDS)
    assert erase_old_secret_values(get_database_time()) == 1
    assert SecretRead.objects.get().value == ""
    assert begin(secret)


def test_the_result_is_stored_by_no_row_of_the_task(secret: Secret, prod: Hand) -> None:
    begin(secret)
    route_waiting_tasks(get_database_time())
    task = prod.take()
    assert task is not None
    prod.send(task, prod.perform(task))
    task.refresh_from_db()
    assert (task.status, task.result) == ("SUCCEEDED", "")
    assert read(secret) == VALUE


def test_a_late_answer_is_evidence_without_the_value(secret: Secret, prod: Hand) -> None:
    begin(secret)
    route_waiting_tasks(get_database_time())
    task = prod.take()
    assert task is not None
    variant = get_result_variant(task.kind, prod.payloads[-1].params)
    TaskAttempt.objects.create(
        task=task, fence=task.fence, instance=prod.instance, at=get_database_time(), variant=variant
    )
    DelegateTask.objects.update(fence=task.fence + 1)
    assert not complete_task(prod.instance, task.pk, fence=task.fence, answer=prod.perform(task))
    body = json.loads(LateAnswer.objects.get().body)
    assert (body["status"], body["result"]) == ("SUCCEEDED", None)


def test_vault_is_read_by_a_delegate_whose_task_has_no_token(
    project: Scope, admin: User, vault: VaultServer, make: Callable[..., Secret], prod: Hand
) -> None:
    login = create_secret(actor=admin, scope=project, identifier="login", name="Login", value=SECRET_ID)
    connector = connect_vault(admin, project, vault, login)
    secret = make(connector, "Vault", "prod/db", "password")
    begin(secret)
    assert serve_all(prod) == 2
    assert read(secret) == planted("from-the-vault")
    assert [path for _, path in vault.requests] == ["/v1/auth/approle/login", "/v1/secret/data/prod/db"]
    tasks = list(DelegateTask.objects.order_by("queued_at"))
    assert [json.loads(task.payload) for task in tasks] == [
        {"service": "vault", "operation": "POST"},
        {"service": "vault", "operation": "GET"},
    ]
    assert {task.criterion for task in tasks} == {vault.url}
    # Login and token are masked by the agent.
    token = prod.payloads[1].params["headers"]["X-Vault-Token"]
    assert [payload.mask for payload in prod.payloads] == [(SECRET_ID,), (token,)]
    age(secret_values.CACHE_SECONDS)
    vault.denied.add("prod/db")
    begin(secret)
    assert serve_all(prod) == 2
    assert "permission denied (403)" in refusal_of(secret)


def connect_vault(admin: User, project: Scope, vault: VaultServer, login: Secret) -> Connector:
    spec = {"url": vault.url, "authentication": "AppRole", "role_id": ROLE_ID, **ROUTE}
    return create_connector(
        actor=admin, scope=project, identifier="vault", name="V", kind="Vault", spec=spec, secret=login
    )


def test_the_test_of_a_vault_connector_logs_in_through_the_delegate(
    project: Scope, admin: User, vault: VaultServer, prod: Hand
) -> None:
    login = create_secret(actor=admin, scope=project, identifier="login", name="Login", value=SECRET_ID)
    connector = connect_vault(admin, project, vault, login)
    create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    assert serve_all(prod) == 2
    connector.refresh_from_db()
    assert connector.last_test_ok, connector.last_test_message
    assert "as approle, with the policies default, slipway" in connector.last_test_message
    assert connector.last_test_report["delegate"] == "prod-eu on ip-10-0-1-7"
    assert {task.result for task in DelegateTask.objects.all()} == {""}
    assert LookupRequest.objects.get().answers == "[]"
    vault.is_sealed = True
    create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    serve_all(prod)
    connector.refresh_from_db()
    assert (connector.last_test_ok, "Unseal Vault" in connector.last_test_message) == (False, True)


def test_a_refusal_by_aws_names_the_permission(
    secret: Secret,
    prod: Hand,
    sandbox: SandboxProcess,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sandbox.fault("denied", service="secretsmanager", operation="GetSecretValue")
    begin(secret)
    with django_capture_on_commit_callbacks(execute=True):
        prod.serve()
    assert "Allow secretsmanager:GetSecretValue on" in refusal_of(secret)
    secret.refresh_from_db()
    assert "Allow secretsmanager:GetSecretValue on" in secret.last_read_problem


def test_an_answer_that_cannot_be_used_is_refused(
    aws: Connector, make: Callable[..., Secret], prod: Hand
) -> None:
    secret = make(aws, "AwsSecretsManager", "prod/db", "nothing")
    begin(secret)
    prod.serve()
    assert "it has no such key" in refusal_of(secret)


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_read_without_an_answer_is_asked_again(secret: Secret, prod: Hand, is_lost: bool) -> None:
    begin(secret)
    route_waiting_tasks(get_database_time())
    task = DelegateTask.objects.get()
    if is_lost:
        # A worker or an agent died between the question and the answer.
        taken = prod.take()
        assert taken is not None
        secret_reads.SecretReadOwner().record_lost(taken)
    else:
        reason = "No delegate accepted the task in time."
        assert end_queued_task(task, DelegateTask.Status.EXPIRED, reason, get_database_time())
        assert "was not read: No delegate accepted the task in time." in SecretRead.objects.get().problem
    begin(secret)
    assert prod.serve() == 1
    assert read(secret) == VALUE


def test_tags_that_no_delegate_has_are_the_reason(secret: Secret) -> None:
    begin(secret)
    route_waiting_tasks(get_database_time())
    assert "was not read: No registered delegate" in refusal_of(secret)


def test_a_delegate_that_is_away_is_the_reason_of_the_wait(secret: Secret, prod: Hand) -> None:
    prod.instance.last_heartbeat_at = timezone.now() - timedelta(minutes=5)
    prod.instance.status = "DISCONNECTED"
    prod.instance.save()
    begin(secret)
    route_waiting_tasks(get_database_time())
    assert "Waiting for a delegate. prod-eu: Last heartbeat at" in begin(secret)


def test_a_delegate_of_an_earlier_release_gets_no_such_task(secret: Secret) -> None:
    hand("older", tags=("prod",)).serve()
    begin(secret)
    route_waiting_tasks(get_database_time())
    assert "does not know secret managers of AWS" in begin(secret)


def test_one_read_serves_all_processes_and_is_renewed_early(
    secret: Secret, prod: Hand, aws: Connector, sandbox: SandboxProcess
) -> None:
    begin(secret)
    begin(secret)
    assert prod.serve() == 1
    for _ in range(2):
        assert read(secret) == VALUE
        # As in another process.
        clear_cached_values()
    assert prod.serve() == 0
    assert aws.secret is not None
    client = get_client(
        AccessKey("AKIASANDBOX", aws.secret.value), "us-east-1", Endpoint(sandbox.url), "secretsmanager"
    )
    rotated = {"password": planted("rotated")}
    client.put_secret_value(SecretId="prod/db", SecretString=json.dumps(rotated))
    age(secret_values.REFRESH_SECONDS)
    assert read(secret) == VALUE
    assert prod.serve() == 1
    assert read(secret) == planted("rotated")


def test_a_read_of_an_earlier_reference_does_not_count(
    secret: Secret, prod: Hand, admin: User, aws: Connector
) -> None:
    begin(secret)
    route_waiting_tasks(get_database_time())
    taken = prod.take()
    assert taken is not None
    update_secret(actor=admin, secret=secret, reference=SecretReference("AwsParameterStore", aws, "/prod/db"))
    prod.complete(taken, prod.perform(taken))
    begin(secret)
    assert prod.serve() == 1
    assert prod.taken_operations == ["GetSecretValue", "GetParameter"]
    assert read(secret) == VALUE


def test_a_login_that_a_delegate_reads_too_comes_first(
    project: Scope,
    admin: User,
    vault: VaultServer,
    secret: Secret,
    make: Callable[..., Secret],
    prod: Hand,
    sandbox: SandboxProcess,
) -> None:
    login = create_secret(
        actor=admin,
        scope=project,
        identifier="login",
        name="Login",
        reference=SecretReference("AwsSecretsManager", secret.manager_connector, "vault"),
    )
    key = AccessKey("AKIASANDBOX", planted("key-of-the-sandbox"))
    managed = get_client(key, "us-east-1", Endpoint(sandbox.url), "secretsmanager")
    managed.create_secret(Name="vault", SecretString=SECRET_ID)
    inner = create_secret(
        actor=admin,
        scope=project,
        identifier="inner",
        name="Inner",
        reference=SecretReference(
            "Vault", connect_vault(admin, project, vault, login), "prod/db", "password"
        ),
    )
    begin(inner)
    assert prod.serve() == 1
    begin(inner)
    assert serve_all(prod) == 2
    assert read(inner) == planted("from-the-vault")


def test_a_test_of_the_secret_reads_anew_and_says_when_it_waits(
    secret: Secret, prod: Hand, admin: User
) -> None:
    begin(secret)
    prod.serve()
    assert read(secret) == VALUE
    waiting = run_secret_test(actor=admin, secret=secret)
    assert (waiting.ok, "A delegate reads the secret db" in waiting.message) == (False, True)
    assert prod.serve() == 1
    assert AuditEntry.objects.get(action="secret.test").after["message"] == waiting.message


@pytest.mark.django_db(transaction=True)
def test_outside_of_a_transaction_a_reader_waits_for_the_answer(
    secret: Secret, prod: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []

    def serve(seconds: float) -> None:
        naps.append(seconds)
        prod.serve()

    monotonic = secret_reads.time.monotonic
    monkeypatch.setattr(secret_reads, "time", SimpleNamespace(monotonic=monotonic, sleep=serve))
    assert fetch_secret_value(secret, reader="test") == VALUE
    assert len(naps) == 1
    with transaction.atomic(), pytest.raises(SecretPending):
        fetch_secret_value(secret, reader="test")


def build_answer(**result: Any) -> TaskAnswer:
    return TaskAnswer("SUCCEEDED", result)


def test_an_answer_after_the_read_has_ended_changes_nothing(secret: Secret, prod: Hand) -> None:
    begin(secret)
    route_waiting_tasks(get_database_time())
    taken = prod.take()
    assert taken is not None
    owner = secret_reads.SecretReadOwner()
    owner.complete(taken, prod.perform(taken))
    owner.complete(taken, build_answer(SecretString=json.dumps({"password": planted("another")})))
    owner.record_lost(taken)
    assert read(secret) == VALUE
