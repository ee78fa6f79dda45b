"""Export, diff and apply against a real Slipway."""

import json
from pathlib import Path

import pytest
import yaml
from pytest_django.live_server_helper import LiveServer

from catalog.models import Environment, Infrastructure, Service
from cli.resources.kinds import CONNECTOR
from connectors.models import Connector
from connectors.operations import create_secret, update_connector
from pipelines.models import InputSet, Trigger
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.operations import create_service_account
from tests.fixtures.command_line import CommandLine, sign_in
from tests.fixtures.engine_driver import Drive
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db(transaction=True)
NEW_PROJECT = """kind: Pipeline
identifier: release
spec:
  yaml: |
    pipeline:
      identifier: release
      name: Release
      stages:
        - stage:
            identifier: deploy
            type: Deployment
            spec:
              deploymentType: ECS
              service: {serviceRef: web}
              environment:
                environmentRef: test
                infrastructureDefinitions: [{identifier: main}]
              execution:
                steps:
                  - step: {identifier: roll, type: EcsRollingDeploy, timeout: 10m}
---
kind: Infrastructure
identifier: main
spec: {environment: test, name: Main, connector: sandbox_aws, region: us-east-1, cluster: demo}
---
kind: Environment
identifier: test
spec: {name: Test}
---
kind: Service
identifier: web
spec:
  name: Web
  artifact: {image: nginx, tag: "1.28"}
---
kind: Trigger
identifier: push
spec: {pipeline: release, name: Build, type: webhook, service_account: ci, tag: <+trigger.payload.tag>}
---
kind: InputSet
identifier: nightly
spec: {pipeline: release, name: Nightly}
"""


@pytest.fixture
def admin_line(tmp_path: Path, drive: Drive, live_server: LiveServer) -> CommandLine:
    """The command line of the demo's admin, beside a service account for triggers."""
    admin, account = User.objects.get(username="admin"), Scope.objects.account()
    program = create_service_account(actor=admin, scope=account, name="CI", identifier="ci")
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(user=program.user, role=role, scope=account)
    return sign_in(tmp_path, live_server.url, admin)


def find_line(text: str) -> int:
    return NEW_PROJECT[: NEW_PROJECT.index(text)].count("\n") + 1


def write(line: CommandLine, text: str) -> str:
    path = line.home / "resources.yaml"
    path.write_text(text)
    return str(path)


def test_an_export_applies_without_a_difference_and_has_no_secret(admin_line: CommandLine) -> None:
    exported = admin_line.run("export", "--scope", "default/demo")
    assert exported.returncode == 0, exported.stderr
    documents = list(yaml.safe_load_all(exported.stdout))
    file = write(admin_line, exported.stdout)

    compared = admin_line.run("diff", "-f", file)

    assert {document["kind"] for document in documents} == {
        "Connector",
        "Environment",
        "Service",
        "Infrastructure",
        "Pipeline",
    }
    assert {document["scope"] for document in documents} == {"default/demo"}
    assert "sandbox/secret/access/key" not in exported.stdout
    assert compared.returncode == 0, compared.stdout + compared.stderr
    assert f"0 to create, 0 to change, 0 to delete, {len(documents)} unchanged" in compared.stdout


def test_resources_are_created_in_the_order_of_their_dependencies(admin_line: CommandLine) -> None:
    file = write(admin_line, NEW_PROJECT)
    options = ("-f", file, "--scope", "default/demo")

    compared = admin_line.run("diff", *options)
    refused = admin_line.run("apply", *options)
    applied = admin_line.run("apply", *options, "--yes")
    again = admin_line.run("apply", *options, "--yes")

    assert compared.returncode == 8
    assert "create Service web in default/demo" in compared.stdout
    assert (refused.returncode, "confirm with --yes" in refused.stderr) == (2, True)
    assert applied.returncode == 0, applied.stderr
    assert again.stdout.strip() == "0 to create, 0 to change, 0 to delete, 6 unchanged"
    assert Service.objects.get(identifier="web").artifact.tag == "1.28"
    assert Infrastructure.objects.get(environment__identifier="test").cluster == "demo"
    trigger = Trigger.objects.get(pipeline__identifier="release")
    assert trigger.service_account.identifier == "ci"
    assert f"Secret of Trigger release/push in default/demo, shown once: {trigger.secret}" in applied.stdout
    assert InputSet.objects.get().pipeline.identifier == "release"

    exported = admin_line.run("export", "--scope", "default/demo", "--kind", "Trigger", "--kind", "InputSet")
    assert trigger.secret not in exported.stdout
    assert "service_account: ci" in exported.stdout
    assert admin_line.run("diff", "-f", write(admin_line, exported.stdout)).returncode == 0


def test_a_document_names_the_connector_of_an_infrastructure_in_either_way(admin_line: CommandLine) -> None:
    file = write(admin_line, NEW_PROJECT)
    admin_line.run("apply", "-f", file, "--scope", "default/demo", "--yes")
    connector = Connector.objects.get(identifier="sandbox_aws")
    project = connector.scope
    Connector.objects.filter(pk=connector.pk).update(scope=Scope.objects.account())
    nearer = Connector.objects.create(
        scope=project, identifier="sandbox_aws", name="Nearer", spec=connector.spec, secret=connector.secret
    )
    assert admin_line.run("diff", "-f", file, "--scope", "default/demo").returncode == 0
    exported = admin_line.run("export", "--scope", "default/demo", "--kind", "Infrastructure").stdout
    assert "connector: account.sandbox_aws" in exported
    assert admin_line.run("diff", "-f", write(admin_line, exported)).returncode == 0
    Infrastructure.objects.update(connector=nearer)
    assert admin_line.run("apply", "-f", write(admin_line, exported), "--yes").returncode == 0
    assert set(Infrastructure.objects.values_list("connector", flat=True)) == {connector.pk}


def test_an_exported_connector_keeps_its_session_token_elsewhere(admin_line: CommandLine) -> None:
    connector, admin = Connector.objects.get(identifier="sandbox_aws"), User.objects.get(username="admin")
    token = create_secret(
        actor=admin, scope=connector.scope, identifier="token", name="Token", value=planted("session-token")
    )
    update_connector(actor=admin, connector=connector, session_token=token)
    exported = admin_line.run("export", "--scope", "default/demo", "--kind", "Connector").stdout
    assert "session_token: token" in exported
    assert admin_line.run("diff", "-f", write(admin_line, exported)).returncode == 0

    elsewhere = write(admin_line, exported.replace("identifier: sandbox_aws", "identifier: copy"))
    assert admin_line.run("apply", "-f", elsewhere, "--yes").returncode == 0
    assert Connector.objects.get(identifier="copy").session_token == token

    permanent = write(admin_line, exported.replace("  session_token: token\n", ""))
    assert admin_line.run("apply", "-f", permanent, "--yes").returncode == 0
    connector.refresh_from_db()
    assert connector.session_token is None
    assert admin_line.run("diff", "-f", permanent).returncode == 0


def test_a_connector_without_its_secret_is_refused(admin_line: CommandLine) -> None:
    exported = admin_line.run("export", "--scope", "default/demo", "--kind", "Connector").stdout
    (document,) = yaml.safe_load_all(exported)
    del document["spec"]["secret"]
    answer = admin_line.run("apply", "-f", write(admin_line, yaml.safe_dump(document)), "--yes")
    assert answer.returncode == 1
    assert "An access key needs its secret" in answer.stderr
    assert Connector.objects.get(identifier="sandbox_aws").secret is not None


def test_an_older_server_without_session_tokens_is_not_sent_one() -> None:
    row = {"name": "AWS", "kind": "Aws", "spec": {}, "secret": "key"}
    spec = CONNECTOR.build_spec(row)
    assert spec["session_token"] is None
    assert CONNECTOR.build_body(spec | {"secret": None}, stored=row) == {
        "name": "AWS",
        "spec": {},
        "secret": None,
    }
    assert "session_token" not in CONNECTOR.build_body(spec, stored=None)


def test_a_change_shows_its_difference_and_prune_deletes_only_these_kinds(admin_line: CommandLine) -> None:
    options = ("--scope", "default/demo", "--yes")
    admin_line.run("apply", "-f", write(admin_line, NEW_PROJECT), *options)
    changed = write(admin_line, "kind: Environment\nidentifier: dev\nspec: {name: Playground}\n")

    compared = admin_line.run("diff", "-f", changed, "--scope", "default/demo", "--prune", "--json")
    refused = admin_line.run("apply", "-f", changed, "--prune", *options)

    changes = json.loads(compared.stdout)
    assert [(change["change"], change["identifier"]) for change in changes] == [
        ("change", "dev"),
        ("delete", "test"),
    ]
    assert "-name: Development" in changes[0]["diff"]
    assert "+name: Playground" in changes[0]["diff"]
    # The pipeline still uses the environment.
    assert refused.returncode == 7, refused.stderr
    assert "Environment test in default/demo" in refused.stderr
    assert Environment.objects.get(identifier="dev").name == "Playground"
    assert Connector.objects.filter(identifier="sandbox_aws").exists()


def test_a_refused_value_is_named_with_its_line(admin_line: CommandLine) -> None:
    wrong_image = write(admin_line, NEW_PROJECT.replace("image: nginx", 'image: "no image"'))
    answer = admin_line.run("apply", "-f", wrong_image, "--scope", "default/demo", "--yes")
    assert answer.returncode == 1
    assert f"{wrong_image}, document 4, line {find_line('artifact:')}: artifact.image" in answer.stderr

    wrong_step = write(admin_line, NEW_PROJECT.replace("EcsRollingDeploy", "EcsRollingDeplo"))
    answer = admin_line.run("apply", "-f", wrong_step, "--scope", "default/demo", "--yes")
    assert answer.returncode == 1
    assert f"{wrong_step}, document 1, line {find_line('EcsRollingDeploy')}: pipeline.stages" in answer.stderr
    assert "did you mean EcsRollingDeploy?" in answer.stderr
