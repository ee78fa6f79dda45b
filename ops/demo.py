"""The demo: three people and a project whose pipelines deploy to the sandbox. What exists is left alone."""

from django.conf import settings
from django.db import transaction

from catalog.models import Environment, Infrastructure
from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, update_connector
from delegates.beginnings import ensure_first_rows
from ops.demo_pipelines import DEMOS, SandboxFacts, seed_pipeline
from ops.demo_secrets import API_KEY_VARIABLE, PASSWORD_VARIABLE, demo_api_key, demo_password, given
from rbac.keys import key_of_token
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.operations.keys import create_api_key
from rbac.roles import ensure_builtin_roles

__all__ = ["ACCESS_KEY_ID", "SandboxFacts", "seed_demo"]

# Made up: the sandbox asks nobody who they are, but a connector is not complete without.
ACCESS_KEY_ID = "AKIASANDBOXEXAMPLE00"
SECRET_ACCESS_KEY = "sandbox/secret/access/key/example/000000"  # noqa: S105


@transaction.atomic
def seed_demo(facts: SandboxFacts) -> None:
    """Make what the demo lacks; running it again changes nothing that is there."""
    ensure_builtin_roles()
    ensure_first_rows()
    project = _project()
    admin = _people(project)
    connector = _connector(admin, project)
    _infrastructure(project, connector, facts)
    for one in DEMOS:
        seed_pipeline(one, admin=admin, project=project, facts=facts)


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
