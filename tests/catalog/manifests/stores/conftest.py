"""The demo whose service's manifests lie elsewhere."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from catalog.forms.services import build_service_spec
from catalog.models import Service
from catalog.operations import ManifestSpec, update_service
from connectors.models import Connector, FileNode
from connectors.operations import create_connector, create_secret
from rbac.models import Scope, User
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.git import PASSWORD, USERNAME

__all__ = ["_full_buckets", "drive"]

Place = dict[str, str]
Move = Callable[..., Service]
TASK, SERVICE = "EcsTaskDefinition", "EcsServiceDefinition"
FILES = {
    "ecs/task.yaml": "RegisterTaskDefinitionRequest.yaml",
    "ecs/service.yaml": "CreateServiceRequest.yaml",
}


def texts() -> dict[str, str]:
    """The demo's manifests, named as in the repository."""
    return {
        name: FileNode.objects.get(path=f"/ECS Tutorial/{file_name}").content
        for name, file_name in FILES.items()
    }


@pytest.fixture
def move(drive: object) -> Move:
    """Let the manifests of the demo's service lie in a store at a place."""

    def move_manifests(
        store: str, location: Place, *, task: str = "/ecs/task.yaml", actor: User | None = None
    ) -> Service:
        service = Service.objects.get(identifier="myapp")
        manifests = [
            ManifestSpec("task def", TASK, store, (task,), place=location),
            ManifestSpec("service def", SERVICE, store, ("ecs/service.yaml",), place=location),
        ]
        spec = replace(build_service_spec(service), manifests=manifests)
        return update_service(actor=actor or User.objects.get(username="admin"), service=service, spec=spec)

    return move_manifests


def create_git_connector(url: str, *, is_private: bool = False, **spec: object) -> Connector:
    """Create a connector to a repository, with the password that the server requires for /private."""
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    secret = None
    if is_private:
        spec |= {"authentication": "UsernamePassword", "username": USERNAME}
        secret = create_secret(actor=admin, scope=scope, identifier="token", name="Token", value=PASSWORD)
    return create_connector(
        actor=admin,
        scope=scope,
        identifier="shop",
        name="Shop",
        kind="Git",
        spec={"url": url, **spec},
        secret=secret,
    )
