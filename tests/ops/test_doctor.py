"""`manage.py doctor` names what is wrong with an installation, and the fix."""

import io
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from connectors.models import Connector, Secret
from delegates.models import Delegate, DelegateInstance
from deployments.engine import dispatch
from deployments.models import Pulse
from guards.examinations import Finding, Result
from ops import doctor
from ops.backups.unfinished import build_mark_statements
from ops.models import ServerProcess
from rbac.models import RoleAssignment, Scope, User
from sandbox.process import SandboxProcess
from tests.ports import free_port
from tests.secret_watch.marker import planted
from web.http import static_files
from web.http.static_files import HashedStaticFiles, require_static_files

pytestmark = pytest.mark.django_db
NOBODY = "127.0.0.1:1"


def examine(name: str) -> list[Finding]:
    return [finding for check, finding in doctor.examine_installation() if check == name]


def examine_once(name: str) -> tuple[Result, str, str]:
    (finding,) = examine(name)
    return finding.result, finding.message, finding.fix


@pytest.fixture
def beating() -> None:
    Pulse.objects.update_or_create(name=dispatch.DISPATCHER, defaults={"at": timezone.now()})


@pytest.mark.usefixtures("beating", "live_broker", "sandbox")
def test_a_sound_installation_passes_every_check_that_it_can_answer(
    settings: Settings, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    output = io.StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("doctor", "--json", stdout=output)
    rows = [json.loads(line) for line in output.getvalue().splitlines()]

    assert list(dict.fromkeys(row["check"] for row in rows)) == [check.name for check in doctor.CHECKS]
    # The tests run without collected files, which a web server would lack too.
    failures = [row["message"] for row in rows if row["result"] == "failed"]
    assert len(failures) == 1
    assert "static files were not collected" in failures[0]
    assert end.value.code == 1
    assert all(row["fix"] for row in rows if row["result"] in ("failed", "warning"))
    sound = {row["check"] for row in rows if row["result"] == "ok"}
    assert sound >= {"database", "migrations", "encryption keys", "broker", "processes", "clocks", "storage"}


@pytest.mark.parametrize(
    ("change", "result", "fix"),
    [
        ({}, Result.OK, ""),
        ({"expires_at": timezone.now() + timedelta(days=1)}, Result.WARNING, "without an expiry"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, Result.WARNING, "manage createsuperuser"),
    ],
)
def test_the_loss_of_all_account_administrators_is_fixed_by_a_command(
    change: dict[str, object], result: Result, fix: str, admin: User
) -> None:
    RoleAssignment.objects.filter(user=admin).update(**change)
    found, _, next_step = examine_once("administrators")
    assert (found, fix in next_step) == (result, True)
    if found is not Result.OK:
        call_command("createsuperuser", username="rescue", email="rescue@example.com", interactive=False)
        assert examine_once("administrators")[0] is Result.OK


def test_a_restore_that_did_not_finish_is_fixed_by_a_restore() -> None:
    with connection.cursor() as cursor:
        for statement, values in build_mark_statements("/backups/1", "noon"):
            cursor.execute(statement.replace("?", "%s"), values)

    result, message, fix = examine_once("migrations")
    assert result is Result.FAILED
    assert "did not finish" in message
    assert fix.startswith("Run manage restore")


def test_without_a_broker_what_needs_it_is_not_guessed(settings: Settings) -> None:
    settings.REDIS_URL = f"redis://{NOBODY}"

    assert examine_once("broker")[0] is Result.FAILED
    assert examine_once("processes")[:2] == (Result.SKIPPED, "Not checked without broker.")
    assert examine_once("clocks")[0] is Result.SKIPPED


def test_another_encryption_key_is_noticed_before_a_deployment_needs_it(settings: Settings) -> None:
    Secret.objects.create(
        scope=Scope.objects.account(), identifier="key", name="Key", value=planted("hidden-value")
    )
    assert examine_once("encryption keys")[0] is Result.OK

    settings.FIELD_ENCRYPTION_KEYS = ("8" * 43 + "=",)

    result, message, fix = examine_once("encryption keys")
    assert (result, message) == (
        Result.FAILED,
        "1 stored secrets cannot be decrypted (connectors_secret.value).",
    )
    assert "FIELD_ENCRYPTION_KEY" in fix


def test_a_silent_process_and_another_version_are_named(live_broker: str, beating: None) -> None:
    now = timezone.now()
    ServerProcess.objects.create(
        role="WORKER",
        hostname="ip-10-0-0-9",
        pid=7,
        version="0.0.9",
        started_at=now,
        seen_at=now - timedelta(seconds=60),
    )

    assert examine_once("processes")[1] == "The worker process 7 on ip-10-0-0-9 gives no sign of life."
    assert "worker process 7 on ip-10-0-0-9 has 0.0.9" in examine("versions")[0].message


@pytest.mark.parametrize(("seconds", "result"), [(0, "ok"), (-20, "warning"), (4000, "failed")])
def test_clocks_that_differ_are_reported_by_how_much_it_matters(
    live_broker: str, monkeypatch: pytest.MonkeyPatch, seconds: float, result: str
) -> None:
    right: Callable[[], float] = doctor._read_broker_clock
    monkeypatch.setattr(doctor, "_read_broker_clock", lambda: right() + seconds)

    broker = next(finding for finding in examine("clocks") if "broker" in finding.message)

    assert broker.result == result
    assert seconds == 0 or f"differ by {abs(seconds):.0f} s" in broker.message


@pytest.fixture
def collected(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The product's static files, collected under their plain names."""
    for folder in settings.STATICFILES_DIRS:
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(static_files, "staticfiles_storage", HashedStaticFiles(location=tmp_path))
    return tmp_path


def test_a_web_server_without_its_styles_does_not_start(collected: Path) -> None:
    require_static_files()
    (collected / "css" / "account.css").unlink()

    with pytest.raises(SystemExit, match=r"1 static files were not collected .* css/account.css"):
        require_static_files()


def test_a_mail_server_that_does_not_answer_is_named(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()

    result, message, _ = examine_once("e-mail")

    assert result is Result.FAILED
    assert message.startswith(f"127.0.0.1:{settings.EMAIL_PORT}: ")


@pytest.fixture
def sandbox_connector(
    sandbox: SandboxProcess, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Connector:
    """A connector that uses the credentials of this process for the sandbox."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIADOCTOR")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", planted("secret-of-the-process"))
    settings.ALLOW_MANAGER_CREDENTIALS = True
    spec = {"credentials": "DefaultChain", "test_region": "us-east-1", "endpoint_url": sandbox.url}
    return Connector.objects.create(
        scope=Scope.objects.account(), identifier="sandbox_aws", name="AWS", spec=spec
    )


def test_each_connector_that_calls_from_here_is_tried_and_no_result_is_stored(
    sandbox_connector: Connector,
) -> None:
    result, message, _ = examine_once("AWS")

    assert result is Result.OK, message
    assert f"{sandbox_connector.identifier}: account " in message
    sandbox_connector.refresh_from_db()
    assert sandbox_connector.last_tested_at is None


def test_a_connector_that_cannot_reach_aws_is_named_with_the_next_step(
    sandbox_connector: Connector,
) -> None:
    sandbox_connector.spec = {**sandbox_connector.spec, "endpoint_url": f"http://{NOBODY}"}
    sandbox_connector.save()

    result, message, fix = examine_once("AWS")

    assert result is Result.FAILED
    assert sandbox_connector.identifier in message
    assert fix


@pytest.mark.parametrize(
    ("image", "is_named"),
    [
        ("slipway-delegate:latest", True),
        ("registry.example:5000/slipway-delegate", True),
        ("registry.example:5000/slipway-delegate:0.1.0", False),
        ("slipway-delegate@sha256:" + "0" * 64, False),
    ],
)
def test_an_image_that_can_change_under_its_name_is_a_warning(
    settings: Settings, image: str, is_named: bool
) -> None:
    settings.DELEGATE_IMAGES = {"v3": image, "legacy": image}

    assert [image in finding.message for finding in examine("versions")[1:]] == [True] * is_named


def test_connected_delegates_of_another_version_are_counted(settings: Settings) -> None:
    settings.DELEGATE_IMAGES = {}
    delegate = Delegate.objects.create(scope=Scope.objects.account(), name="prod-eu")
    now = timezone.now()
    for key, version in (("a", "0.0.1"), ("b", settings.SLIPWAY_VERSION)):
        DelegateInstance.objects.create(
            delegate=delegate,
            key=key,
            hostname=key,
            version=version,
            last_heartbeat_at=now,
            registered_at=now,
        )

    assert [finding.message for finding in examine("versions")[1:]] == [
        "1 delegate instances have another version: prod-eu on a has 0.0.1."
    ]


def test_a_database_that_is_too_full_of_connections_is_a_warning() -> None:
    if connection.vendor != "postgresql":
        assert examine_once("database")[1] == "SQLite."
    else:
        assert "connections in use" in examine_once("database")[1]
