"""The demo: three people and a project whose pipeline deploys to the sandbox. What exists is left alone."""

import json
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from django.conf import settings
from django.db import transaction

from connectors.models import Connector, FileNode, Secret
from connectors.operations import create_connector, create_secret, save_file, update_connector
from delegates.beginnings import ensure_first_rows
from deployments.authoring import save_pipeline
from deployments.models import Artifact, Environment, Infrastructure, Manifest, Pipeline, Service
from ops.demo_secrets import API_KEY_VARIABLE, PASSWORD_VARIABLE, demo_api_key, demo_password, given
from rbac.keys import create_api_key, key_of_token
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.roles import ensure_builtin_roles

SAMPLES = Path(__file__).parent / "samples"
FOLDER = "/ECS Tutorial"
TASK_DEFINITION = "RegisterTaskDefinitionRequest.yaml"
SERVICE_DEFINITION = "CreateServiceRequest.yaml"
IMAGE, TAG = "library/nginx", "1.27"
# Made up: the sandbox asks nobody who they are, but a connector is not complete without.
ACCESS_KEY_ID = "AKIASANDBOXEXAMPLE00"
SECRET_ACCESS_KEY = "sandbox/secret/access/key/example/000000"  # noqa: S105


@dataclass(frozen=True)
class SandboxFacts:
    """The names in the pretend account that the demo's manifests need."""

    region: str
    cluster: str
    subnets: tuple[str, ...]
    security_group: str
    role_arn: str

    @classmethod
    def from_wire(cls, seed: dict[str, Any]) -> "SandboxFacts":
        """Read what GET /sandbox/seed answers."""
        return cls(
            region=seed["region"],
            cluster=seed["cluster"],
            subnets=tuple(seed["subnets"]),
            security_group=seed["security_group"],
            role_arn=seed["execution_role_arn"],
        )


@transaction.atomic
def seed_demo(facts: SandboxFacts) -> None:
    """Make what the demo lacks; running it again changes nothing that is there."""
    ensure_builtin_roles()
    ensure_first_rows()
    project = _project()
    admin = _people(project)
    connector = _connector(admin, project)
    _files(admin, project, facts)
    _service(project)
    _infrastructure(project, connector, facts)
    _pipeline(admin, project)


def _project() -> Scope:
    account = Scope.objects.account()
    organization, _ = Scope.objects.get_or_create(
        parent=account,
        identifier="default",
        defaults={"kind": Scope.Kind.ORGANIZATION, "name": "Default organization"},
    )
    project, _ = Scope.objects.get_or_create(
        parent=organization, identifier="demo", defaults={"kind": Scope.Kind.PROJECT, "name": "Demo"}
    )
    return project


def _people(project: Scope) -> User:
    admin = _person("admin", "account_admin", Scope.objects.account(), is_staff=True)
    _person("deployer", "pipeline_executor", project)
    _person("viewer", "viewer", project)
    _api_key(admin)
    return admin


def _person(username: str, role: str, scope: Scope, *, is_staff: bool = False) -> User:
    person, is_new = User.objects.get_or_create(username=username, defaults={"is_staff": is_staff})
    if is_new:
        RoleAssignment.objects.create(
            user=person, role=Role.objects.get(identifier=role, scope=None), scope=scope
        )
    # A password that somebody names at the start is meant for this start too.
    if is_new or (given(PASSWORD_VARIABLE) and not person.check_password(demo_password())):
        person.set_password(demo_password())
        person.save(update_fields=["password"])
    return person


def _api_key(admin: User) -> None:
    token = demo_api_key()
    if key_of_token(token) is None and (given(API_KEY_VARIABLE) or not admin.api_keys.exists()):
        create_api_key(actor=admin, user=admin, name=f"demo {admin.api_keys.count() + 1}", token=token)


def _connector(admin: User, project: Scope) -> Connector:
    spec = {
        "credentials": "AccessKey",
        "access_key_id": ACCESS_KEY_ID,
        "test_region": "us-east-1",
        "endpoint_url": settings.SANDBOX_URL,
    }
    connector = Connector.objects.filter(scope=project, identifier="sandbox_aws").first()
    if connector is None:
        secret = _secret(admin, project)
        return create_connector(
            actor=admin, scope=project, identifier="sandbox_aws", name="Sandbox AWS", spec=spec, secret=secret
        )
    # The sandbox moves with PORT. A connector that somebody gave other credentials is no longer the demo's.
    is_ours = connector.spec.get("access_key_id") == ACCESS_KEY_ID
    if is_ours and connector.spec.get("endpoint_url") != settings.SANDBOX_URL:
        update_connector(actor=admin, connector=connector, spec={**connector.spec, **spec})
    return connector


def _secret(admin: User, project: Scope) -> Secret:
    existing = Secret.objects.filter(scope=project, identifier="sandbox_secret_key").first()
    return existing or create_secret(
        actor=admin,
        scope=project,
        identifier="sandbox_secret_key",
        name="Secret access key of the sandbox",
        value=SECRET_ACCESS_KEY,
    )


def _files(admin: User, project: Scope, facts: SandboxFacts) -> None:
    values = {
        "role_arn": facts.role_arn,
        "region": facts.region,
        "subnets": json.dumps(facts.subnets),
        "security_groups": json.dumps([facts.security_group]),
    }
    for name in (TASK_DEFINITION, SERVICE_DEFINITION):
        path = f"{FOLDER}/{name}"
        if not FileNode.objects.filter(scope=project, path=path).exists():
            content = Template((SAMPLES / name).read_text()).substitute(values)
            save_file(actor=admin, scope=project, path=path, content=content)


def _service(project: Scope) -> None:
    service, is_new = Service.objects.get_or_create(
        scope=project, identifier="myapp", defaults={"name": "My app"}
    )
    if not is_new:
        return
    for identifier, kind, name in (
        ("task def", Manifest.Kind.TASK_DEFINITION, TASK_DEFINITION),
        ("service def", Manifest.Kind.SERVICE_DEFINITION, SERVICE_DEFINITION),
    ):
        Manifest.objects.create(
            service=service, identifier=identifier, kind=kind, store="FileStore", paths=[f"{FOLDER}/{name}"]
        )
    Artifact.objects.create(service=service, image=IMAGE, tag=TAG)


def _infrastructure(project: Scope, connector: Connector, facts: SandboxFacts) -> None:
    environment, _ = Environment.objects.get_or_create(
        scope=project, identifier="dev", defaults={"name": "Development"}
    )
    Infrastructure.objects.get_or_create(
        environment=environment,
        identifier="sandbox",
        defaults={
            "name": "Sandbox cluster",
            "connector": connector,
            "region": facts.region,
            "cluster": facts.cluster,
        },
    )


def _pipeline(admin: User, project: Scope) -> None:
    text = (SAMPLES / "rolling_demo.yaml").read_text()
    if not Pipeline.with_deleted.filter(scope=project, identifier="rolling_demo").exists():
        save_pipeline(actor=admin, scope=project, yaml=text)
