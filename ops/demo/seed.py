"""Demo data: three users, and a project with pipelines that deploy to the sandbox."""

from django.conf import settings
from django.db import transaction

from catalog.models import Environment, Infrastructure
from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, update_connector
from delegates.models.delegates import create_first_rows
from ops.demo.credentials import (
    API_KEY_VARIABLE,
    PASSWORD_VARIABLE,
    get_demo_api_key,
    get_demo_password,
    get_variable,
)
from ops.demo.pipelines import DEMO_PIPELINES, SandboxFacts, seed_pipeline
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.operations.api_keys import create_api_key, get_api_key_by_token
from rbac.permissions import ensure_builtin_roles

__all__ = ["ACCESS_KEY_ID", "SandboxFacts", "seed_demo"]

# Invented: the sandbox checks no credentials, but a connector needs some.
ACCESS_KEY_ID = "AKIASANDBOXEXAMPLE00"
SECRET_ACCESS_KEY = "sandbox/secret/access/key/example/000000"  # noqa: S105


@transaction.atomic
def seed_demo(facts: SandboxFacts) -> None:
    """Create the missing demo data; existing data stays unchanged."""
    ensure_builtin_roles()
    create_first_rows()
    project = _create_project()
    admin = _create_users(project)
    connector = _create_connector(admin, project)
    _create_infrastructure(project, connector, facts)
    for demo_pipeline in DEMO_PIPELINES:
        seed_pipeline(demo_pipeline, admin=admin, project=project, facts=facts)


def _create_project() -> Scope:
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


def _create_users(project: Scope) -> User:
    admin = _create_user("admin", "account_admin", Scope.objects.account(), is_staff=True)
    _create_user("deployer", "pipeline_executor", project)
    _create_user("viewer", "viewer", project)
    _create_api_key(admin)
    return admin


def _create_user(username: str, role: str, scope: Scope, *, is_staff: bool = False) -> User:
    person, is_new = User.objects.get_or_create(username=username, defaults={"is_staff": is_staff})
    if is_new:
        RoleAssignment.objects.create(
            user=person, role=Role.objects.get(identifier=role, scope=None), scope=scope
        )
    # A password in the environment applies to this start too.
    if is_new or (get_variable(PASSWORD_VARIABLE) and not person.check_password(get_demo_password())):
        person.set_password(get_demo_password())
        person.save(update_fields=["password"])
    return person


def _create_api_key(admin: User) -> None:
    token = get_demo_api_key()
    if get_api_key_by_token(token) is None and (
        get_variable(API_KEY_VARIABLE) or not admin.api_keys.exists()
    ):
        create_api_key(actor=admin, user=admin, name=f"demo {admin.api_keys.count() + 1}", token=token)


def _create_connector(admin: User, project: Scope) -> Connector:
    spec = {
        "credentials": "AccessKey",
        "access_key_id": ACCESS_KEY_ID,
        "test_region": "us-east-1",
        "endpoint_url": settings.SANDBOX_URL,
    }
    connector = Connector.objects.filter(scope=project, identifier="sandbox_aws").first()
    if connector is None:
        secret = _create_secret(admin, project)
        return create_connector(
            actor=admin, scope=project, identifier="sandbox_aws", name="Sandbox AWS", spec=spec, secret=secret
        )
    # The sandbox's port depends on PORT. A connector with other credentials no longer belongs to the demo.
    is_ours = connector.spec.get("access_key_id") == ACCESS_KEY_ID
    if is_ours and connector.spec.get("endpoint_url") != settings.SANDBOX_URL:
        update_connector(actor=admin, connector=connector, spec={**connector.spec, **spec})
    return connector


def _create_secret(admin: User, project: Scope) -> Secret:
    existing = Secret.objects.filter(scope=project, identifier="sandbox_secret_key").first()
    return existing or create_secret(
        actor=admin,
        scope=project,
        identifier="sandbox_secret_key",
        name="Secret access key of the sandbox",
        value=SECRET_ACCESS_KEY,
    )


def _create_infrastructure(project: Scope, connector: Connector, facts: SandboxFacts) -> None:
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
