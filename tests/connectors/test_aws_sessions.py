"""Sessions of roles: chains, names and tags with the run in them, and web identity."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from aws.clients import AccessKey, AssumedRole, WebIdentity, read_web_identity_token
from aws.errors import Unauthenticated
from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret
from connectors.specs.aws import find_aws_spec_problems, get_credentials, get_session_key
from connectors.specs.aws_sessions import AwsRun, name_aws_sessions, render_session_name
from delegates.access.aws_access import get_local_caller
from delegates.access.connector_tests import run_connector_test
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.secret_watch.marker import planted

FIRST, SECOND, LAST = (f"arn:aws:iam::123456789012:role/{name}" for name in ("first", "second", "last"))
RUN = AwsRun("deploy_shop", "0b6f7c1e-1d2e-4a57-9a53-51a7b3f0c9d1")
ROLE = {"credentials": "AssumeRole", "role_arn": LAST, "access_key_id": "AKIASANDBOX"}


def build_token(claims: Any) -> str:
    """An OIDC token whose signature nobody checks."""
    parts = ({"alg": "RS256", "kid": "1"}, claims)
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return f"{'.'.join(encoded)}.{planted('signature')}"


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
    assert made[0]["Tags"] == [{"Key": "team", "Value": "shop"}]
    assert made[0]["TransitiveTagKeys"] == ["team"]
    assert "Tags" not in made[1]
    assert made[2]["Tags"] == [{"Key": "pipeline", "Value": "deploy_shop"}]
    assert [session.get("ExternalId") for session in made] == [None, None, "slipway-1"]


def test_outside_runs_a_session_is_named_without_one(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    connector = make(admin, secret, sandbox, **ROLE, session_name="slipway-{execution}")
    assert run_connector_test(actor=admin, connector=connector).ok
    assert [session["RoleSessionName"] for session in sessions(sandbox)] == ["slipway-none"]


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
    assert [session["RoleArn"] for session in sessions(sandbox)] == [LAST]
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


def test_a_missing_token_file_is_named_by_the_test(
    admin: User, secret: Secret, sandbox: SandboxProcess
) -> None:
    spec = {"credentials": "WebIdentity", "role_arn": LAST, "web_identity_token_file": "/run/none"}
    tested = run_connector_test(actor=admin, connector=make(admin, secret, sandbox, **spec))
    assert (tested.ok, "/run/none" in tested.message) == (False, True)


WEB = {"credentials": "WebIdentity", "role_arn": LAST, "web_identity_token_file": "/run/token"}


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
        ({**ROLE, "connect_through": "Delegate", "session_name": "slipway-x"}, "connect_through"),
        ({**WEB, "connect_through": "Delegate"}, "connect_through"),
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
