"""Sessions of roles: chains, names and tags with the run in them, and web identity."""

import json
import os
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from aws.clients import AccessKey, AssumedRole, WebIdentity, read_web_identity_token
from aws.errors import AwsError, NotSent, Unauthenticated
from connectors.models import Connector, Secret
from connectors.operations import (
    create_connector,
    create_secret,
    delete_secret,
    update_connector,
    update_secret,
)
from connectors.required_access import MissingAccess
from connectors.specs.aws import find_aws_spec_problems, get_credentials, get_session_key
from connectors.specs.aws_sessions import AwsRun, name_aws_sessions, render_session_name
from connectors.usages import find_usages
from delegates.access.aws_access import (
    build_aws_payload,
    get_local_caller,
    list_required_features,
    require_lendable_credentials,
)
from delegates.access.connector_tests import run_connector_test
from delegates.access.site_calls import FETCH_FILES, SITE_SERVICE, SiteCaller
from delegates.agent import FEATURES
from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from delegates.agent.executors.aws import parse_credentials
from delegates.models import BlocklistEntry, DelegateTask
from delegates.operations.tasks import submit_task
from delegates.task_queue import route_waiting_tasks
from rbac.models import Role, RoleAssignment, Scope, User
from sandbox.process import SandboxProcess
from tests.delegates.agent.held_tasks import MemoryLog, create_task
from tests.fixtures.fake_delegates import hand
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

FIRST, SECOND, LAST = (f"arn:aws:iam::123456789012:role/{name}" for name in ("first", "second", "last"))
RUN = AwsRun("deploy_shop", "0b6f7c1e-1d2e-4a57-9a53-51a7b3f0c9d1")
ROLE = {"credentials": "AssumeRole", "role_arn": LAST, "access_key_id": "AKIASANDBOX"}


def build_token(claims: Any) -> str:
    """An OIDC token whose signature nobody checks."""
    parts = ({"alg": "RS256", "kid": "1"}, claims)
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    # Not planted: the test itself writes it to a file.
    return f"{'.'.join(encoded)}.c2lnbmF0dXJl"


@pytest.fixture
def secret(project: Scope, admin: User, settings: Settings) -> Secret:
    settings.ALLOW_AWS_ENDPOINTS = settings.ALLOW_MANAGER_CREDENTIALS = True
    return create_secret(
        actor=admin, scope=project, identifier="key", name="Key", value=planted("sandbox-key")
    )


def make(admin: User, secret: Secret, sandbox: SandboxProcess, **spec: str) -> Connector:
    needs_secret = "access_key_id" in spec
    return create_connector(
        actor=admin,
        scope=secret.scope,
        identifier="aws",
        name="AWS",
        spec={**spec, "endpoint_url": sandbox.url},
        secret=secret if needs_secret else None,
    )


def sessions(sandbox: SandboxProcess) -> list[dict[str, Any]]:
    return [entry["params"] for entry in sandbox.journal() if entry["operation"].startswith("AssumeRole")]


def _get_tags(session: dict[str, Any]) -> tuple[str, str] | None:
    """The only tag of a session, as the query protocol writes it."""
    assert "Tags.member.2.Key" not in session
    key = session.get("Tags.member.1.Key")
    return (key, session["Tags.member.1.Value"]) if key else None


def test_a_chain_assumes_each_role_with_the_one_before(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    texts = {
        "via_roles": f"{FIRST}, {SECOND}",
        "external_id": "slipway-1",
        "session_name": "slipway-{execution}",
        "session_tags": "team=shop, pipeline={pipeline}",
        "transitive_tag_keys": "team",
    }
    connector = make(admin, secret, sandbox, **ROLE, **texts)
    with name_aws_sessions(lambda: RUN):
        get_local_caller(connector, "us-east-1").call("sts", "GetCallerIdentity", {})
    made = sessions(sandbox)
    assert [session["RoleArn"] for session in made] == [FIRST, SECOND, LAST]
    assert {session["RoleSessionName"] for session in made} == {f"slipway-{RUN.execution}"}
    assert [_get_tags(session) for session in made] == [("team", "shop"), None, ("pipeline", "deploy_shop")]
    assert [session.get("TransitiveTagKeys.member.1") for session in made] == ["team", None, None]
    assert [session.get("ExternalId") for session in made] == [None, None, "slipway-1"]


def test_a_delegate_gets_the_whole_chain_with_names_and_tags(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    texts = {
        "via_roles": FIRST,
        "session_name": "slipway-{execution}",
        "session_tags": "team=shop, pipeline={pipeline}",
        "transitive_tag_keys": "team",
        "connect_through": "Delegate",
    }
    connector = make(admin, secret, sandbox, **ROLE, **texts)
    assert list_required_features(connector) == ["aws-sessions"]
    assert set(list_required_features(connector)) <= set(FEATURES)
    with name_aws_sessions(lambda: RUN):
        payload = build_aws_payload(connector, "us-east-1", "sts", "GetCallerIdentity", {})
        lent = parse_credentials(json.loads(json.dumps(payload.params["credentials"])))
        assert lent == get_credentials(connector)
    assert isinstance(lent, AssumedRole)
    assert (lent.session_name, lent.tags) == (f"slipway-{RUN.execution}", (("pipeline", "deploy_shop"),))
    # The key at the beginning of the chain is masked in logs.
    assert payload.mask == (secret.value,)


def test_a_connector_without_such_settings_needs_no_new_delegate(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    connector = make(admin, secret, sandbox, **ROLE, connect_through="Delegate")
    assert list_required_features(connector) == []


def test_a_task_that_was_assigned_before_is_withheld_from_an_older_delegate(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    connector = make(admin, secret, sandbox, **ROLE, via_roles=FIRST, connect_through="Delegate")
    delegate = hand("older")
    task = submit_task(
        scope=secret.scope,
        kind=DelegateTask.Kind.AWS,
        title="a call",
        payload={},
        connector=connector,
        criterion=sandbox.url,
    )
    assert task.features == ["aws-sessions"]
    route_waiting_tasks(get_database_time())
    task.refresh_from_db()
    assert "does not know chains, names and tags of AWS sessions" in task.reason
    # As if the connector had got its chain after the assignment.
    task.instance = delegate.instance
    with pytest.raises(NotSent, match="upgrade it"):
        require_lendable_credentials(task, connector)
    delegate.instance.features = ["aws-sessions"]
    delegate.instance.save()
    BlocklistEntry.objects.all().delete()
    require_lendable_credentials(task, connector)
    route_waiting_tasks(get_database_time())
    task.refresh_from_db()
    assert task.offered_to == delegate.instance.delegate


def test_outside_runs_a_session_is_named_without_one(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    connector = make(admin, secret, sandbox, **ROLE, session_name="slipway-{execution}")
    assert run_connector_test(actor=admin, connector=connector).ok
    assert {session["RoleSessionName"] for session in sessions(sandbox)} == {"slipway-none"}


def test_a_role_without_settings_is_assumed_as_before(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    connector = make(admin, secret, sandbox, **ROLE)
    with name_aws_sessions(lambda: RUN):
        assert get_credentials(connector) == AssumedRole(
            LAST, AccessKey("AKIASANDBOX", planted("sandbox-key"))
        )
        assert get_session_key(connector) == ""


def test_runs_share_no_session_that_is_named_after_one(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    connector = make(admin, secret, sandbox, **ROLE, session_tags="run={execution}")
    with name_aws_sessions(lambda: RUN):
        assert get_session_key(connector) == RUN.execution
    assert get_session_key(connector) == ""


def test_a_long_pipeline_is_cut_and_odd_characters_replaced() -> None:
    with name_aws_sessions(lambda: AwsRun("p$" * 60, RUN.execution)):
        name = render_session_name("{pipeline}-{execution}")
    assert (len(name), name.endswith(f"-{RUN.execution}"), "$" in name) == (64, True, False)


def test_web_identity_sends_the_token_as_it_is_now(
    admin: User, secret: Secret, sandbox: SandboxProcess, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(build_token({"iss": "https://issuer.example.com", "sub": "slipway"}))
    spec = {"credentials": "WebIdentity", "role_arn": LAST, "web_identity_token_file": str(file)}
    connector = make(admin, secret, sandbox, **spec)
    assert get_credentials(connector) == WebIdentity(LAST, str(file))
    assert run_connector_test(actor=admin, connector=connector).ok
    assert {session["RoleArn"] for session in sessions(sandbox)} == {LAST}
    file.write_text(build_token({"iss": "https://issuer.example.com", "sub": "renewed"}))
    assert read_web_identity_token(str(file)) == file.read_text()


def test_web_identity_begins_a_chain(admin: User, secret: Secret, sandbox: SandboxProcess) -> None:
    spec = {"credentials": "WebIdentity", "role_arn": LAST, "web_identity_token_file": "/run/token"}
    connector = make(admin, secret, sandbox, **spec, via_roles=FIRST, external_id="slipway-1")
    assert get_credentials(connector) == AssumedRole(
        LAST, WebIdentity(FIRST, "/run/token"), external_id="slipway-1"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"root:x:0:0:root:/root:/bin/bash",
        b"a.b.c",
        b"\xff\xfe",
        build_token(["no", "claims"]).encode(),
        build_token({"sub": "without an issuer"}).encode(),
        b"x" * 30_000,
    ],
)
def test_a_file_without_a_token_is_never_sent(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(Unauthenticated, match="has no OIDC token") as refusal:
        read_web_identity_token(str(file))
    assert "root:x" not in str(refusal.value)


def test_a_pipe_is_no_token_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unauthenticated):
        read_web_identity_token(str(tmp_path / "pipe"))


def test_a_missing_token_file_is_named_by_the_test(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    spec = {"credentials": "WebIdentity", "role_arn": LAST, "web_identity_token_file": "/run/none"}
    tested = run_connector_test(actor=admin, connector=make(admin, secret, sandbox, **spec))
    assert (tested.ok, "/run/none" in tested.message) == (False, True)


WEB = {"credentials": "WebIdentity", "role_arn": LAST, "web_identity_token_file": "/run/token"}


def perform(connector: Connector, *token_files: str) -> TaskResult:
    """The result of a call that a delegate makes whose operator has listed these token files."""
    payload = build_aws_payload(connector, "us-east-1", "sts", "GetCallerIdentity", {})
    task = create_task("aws", json.loads(json.dumps(payload.params)))
    return execute_task(task, ExecutorContext(MemoryLog(), token_files=frozenset(token_files)))


def test_a_delegate_reads_the_token_and_begins_the_chain(
    admin: User, secret: Secret, sandbox: SandboxProcess, settings: Settings, tmp_path: Path
) -> None:
    settings.ALLOW_MANAGER_CREDENTIALS = False
    file = tmp_path / "token"
    spec = WEB | {"web_identity_token_file": str(file), "connect_through": "Delegate"}
    connector = make(admin, secret, sandbox, **spec, via_roles=FIRST, session_tags="team=shop")
    assert list_required_features(connector) == ["aws-sessions", "web-identity"]
    assert set(list_required_features(connector)) <= set(FEATURES)
    missing = perform(connector, str(file))
    assert missing.error is not None
    assert missing.error["code"] == "NoWebIdentityToken"
    file.write_text(build_token({"iss": "https://issuer.example.com", "sub": "delegate"}))
    assert perform(connector, str(file)).status == TaskResult.SUCCEEDED
    made = sessions(sandbox)
    assert [session["RoleArn"] for session in made] == [FIRST, LAST]
    assert [_get_tags(session) for session in made] == [None, ("team", "shop")]


def test_a_token_file_that_its_operator_has_not_listed_stays_on_the_delegate(
    admin: User, secret: Secret, sandbox: SandboxProcess, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(build_token({"iss": "https://issuer.example.com", "sub": "delegate"}))
    spec = WEB | {"web_identity_token_file": str(file), "connect_through": "Delegate"}
    connector = make(admin, secret, sandbox, **spec)
    refused = perform(connector, "/run/another")
    assert refused.error is not None
    assert (refused.error["code"], refused.error["capability"]) == ("TokenFileNotAllowed", False)
    assert f"SLIPWAY_DELEGATE_TOKEN_FILES={file}" in refused.error["message"]
    assert sessions(sandbox) == []


def test_manifests_are_read_with_the_web_identity_of_slipway(
    admin: User, secret: Secret, sandbox: SandboxProcess, tmp_path: Path
) -> None:
    spec = WEB | {"web_identity_token_file": str(tmp_path / "token")}
    (tmp_path / "token").write_text(build_token({"iss": "https://issuer.example.com"}))
    params = {"bucket": "manifests", "paths": ["app.yaml"], "region": "us-east-1"}
    with pytest.raises(AwsError):
        SiteCaller(make(admin, secret, sandbox, **spec)).call(SITE_SERVICE, FETCH_FILES, params)
    assert {session["RoleArn"] for session in sessions(sandbox)} == {LAST}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({**ROLE, "via_roles": "not an arn"}, "via_roles"),
        ({**ROLE, "via_roles": ",".join([FIRST] * 5)}, "via_roles"),
        ({"credentials": "DefaultChain", "via_roles": FIRST}, "via_roles"),
        ({**ROLE, "session_name": "x"}, "session_name"),
        ({**ROLE, "session_name": "{secret}"}, "session_name"),
        ({**ROLE, "session_tags": "aws:team=x"}, "session_tags"),
        ({**ROLE, "session_tags": "a=1, A=2"}, "session_tags"),
        ({**ROLE, "session_tags": "a=<b>"}, "session_tags"),
        ({**ROLE, "session_tags": "=b"}, "session_tags"),
        ({**ROLE, "session_tags": "a=1", "transitive_tag_keys": "b"}, "transitive_tag_keys"),
        ({**WEB, "web_identity_token_file": "token"}, "web_identity_token_file"),
        ({**WEB, "session_tags": "a=1"}, "session_tags"),
        ({**WEB, "access_key_id": "AKIASANDBOX"}, "access_key_id"),
        ({**ROLE, "web_identity_token_file": "/run/token"}, "web_identity_token_file"),
    ],
)
def test_settings_that_do_not_fit_are_named(spec: dict[str, Any], path: str, settings: Settings) -> None:
    settings.ALLOW_MANAGER_CREDENTIALS = True
    assert path in {problem["path"] for problem in find_aws_spec_problems(spec, has_secret=True)}


def test_web_identity_lends_the_identity_of_slipway_and_needs_its_permission(settings: Settings) -> None:
    settings.ALLOW_MANAGER_CREDENTIALS = False
    assert "credentials" in {problem["path"] for problem in find_aws_spec_problems(WEB, has_secret=False)}


@pytest.fixture
def token(secret: Secret, admin: User) -> Secret:
    return create_secret(
        actor=admin, scope=secret.scope, identifier="token", name="Token", value=planted("session-token")
    )


def test_a_temporary_key_signs_with_its_session_token(
    admin: User, secret: Secret, token: Secret, sandbox: SandboxProcess
) -> None:
    spec = {"credentials": "AccessKey", "access_key_id": "ASIASANDBOX", "endpoint_url": sandbox.url}
    connector = create_connector(
        actor=admin,
        scope=secret.scope,
        identifier="aws",
        name="AWS",
        spec=spec,
        secret=secret,
        session_token=token,
    )
    key = AccessKey("ASIASANDBOX", planted("sandbox-key"), planted("session-token"))
    assert get_credentials(connector) == key
    payload = build_aws_payload(connector, "us-east-1", "sts", "GetCallerIdentity", {})
    assert set(payload.mask) == {planted("sandbox-key"), planted("session-token")}
    assert find_usages(token, admin)
    with pytest.raises(Conflict):
        delete_secret(actor=admin, secret=token)
    # A secret goes to no other key.
    with pytest.raises(BadInput):
        update_connector(actor=admin, connector=connector, spec={**spec, "access_key_id": "AKIAOTHER"})
    connector.refresh_from_db()
    changed = update_connector(
        actor=admin, connector=connector, spec={**spec, "access_key_id": "AKIAOTHER"}, secret=secret
    )
    assert changed.session_token is None


def test_a_session_token_needs_access_to_its_secret(
    admin: User, secret: Secret, token: Secret, sandbox: SandboxProcess
) -> None:
    editor = make_person("editor")
    role = Role.objects.create(scope=secret.scope, identifier="editor", name="Editor")
    role.set_permissions(["core_connector_edit", "core_connector_view", "core_secret_view"])
    RoleAssignment.objects.create(scope=secret.scope, role=role, user=editor)
    connector = make(admin, secret, sandbox, credentials="AccessKey", access_key_id="ASIASANDBOX")
    with pytest.raises(MissingAccess, match="the secret token"):
        update_connector(actor=editor, connector=connector, session_token=token)


def test_a_renewed_token_clears_the_test_of_its_connector(
    admin: User, secret: Secret, token: Secret, sandbox: SandboxProcess
) -> None:
    connector = make(admin, secret, sandbox, credentials="AccessKey", access_key_id="ASIASANDBOX")
    update_connector(actor=admin, connector=connector, session_token=token)
    assert run_connector_test(actor=admin, connector=connector).ok
    update_secret(actor=admin, secret=token, value=planted("renewed-token"))
    connector.refresh_from_db()
    assert connector.last_test_ok is None
