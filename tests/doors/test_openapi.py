"""About a thousand requests made up from the API's description: no server error, and answers as described."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error, response_schema_conformance
from schemathesis.specs.openapi.checks import content_type_conformance

from rbac.models import User
from rbac.operations.keys import create_api_key
from tests.api.world import World

pytestmark = pytest.mark.django_db

# Two kinds of requests for each of some eighty operations make a thousand.
EACH = 6
# Trying a connector takes a second of waiting for AWS; what it reads of the body, others read too.
SLOW = ("/test", "/preview", "/clusters", "/load-balancers", "/listeners", "/rules")
OUTAGE = 503


@pytest.fixture(scope="module")
def operations() -> list[Any]:
    description = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True))
    description.app = WSGIHandler()
    found = [result.ok() for result in description.get_all_operations()]
    return [operation for operation in found if not operation.path.endswith(SLOW)]


@pytest.fixture(autouse=True)
def _kept_connection() -> Iterator[None]:
    """The end of a request must not close the connection of the test's own transaction."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


def addresses(world: World) -> dict[str, dict[str, Any]]:
    """What is in an address, by how it begins: a made-up one would end with 404 and try little else."""
    return {
        "/api/v1/orgs/": {"org": "default", "project": "demo"},
        "/api/v1/api-keys/": {"id": world.key.pk},
        "/api/v1/connectors/": {"id": world.connector.pk},
        "/api/v1/environments/": {"id": world.environment.pk, "infrastructure": world.infrastructure.pk},
        "/api/v1/executions/": {"id": str(world.execution.pk)},
        "/api/v1/file-deletions/": {"id": world.deletion.pk},
        "/api/v1/file-nodes/": {"id": world.file.pk, "version": 1},
        "/api/v1/files/": {"path": "task.yaml"},
        "/api/v1/pipelines/": {"id": world.pipeline.pk, "number": 1},
        "/api/v1/role-assignments/": {"id": world.assignment.pk},
        "/api/v1/roles/": {"id": world.role.pk},
        "/api/v1/resource-groups/": {"id": world.resource_group.pk},
        "/api/v1/users/": {"id": world.member.pk},
        "/api/v1/user-groups/": {"id": world.user_group.pk},
        "/api/v1/service-accounts/": {"id": world.service_account.pk},
        "/api/v1/secrets/": {"id": world.secret.pk},
        "/api/v1/services/": {"id": world.service.pk},
    }


def real(operation: Any, world: World) -> dict[str, Any]:
    """The values of an operation's address."""
    named = [values for start, values in addresses(world).items() if operation.path.startswith(start)]
    wanted = {parameter.name for parameter in operation.path_parameters}
    return {name: value for values in named for name, value in values.items() if name in wanted}


def try_out(operation: Any, mode: GenerationMode, token: str, path_parameters: dict[str, Any]) -> int:
    """Ask an operation `EACH` times, and return how often it was asked."""
    asked = 0

    @settings(
        max_examples=EACH,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode, path_parameters=path_parameters or None))
    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        case.cookies = {}
        with transaction.atomic():
            response = case.call(
                headers={"x-api-key": token, "Authorization": "", "Accept-Encoding": "identity"}
            )
            transaction.set_rollback(True)
        if response.status_code < 300:
            case.validate_response(response, checks=[content_type_conformance, response_schema_conformance])
        elif response.status_code != OUTAGE:
            case.validate_response(response, checks=[not_a_server_error])
            assert response.headers["content-type"] == ["application/problem+json"], response.content
            assert response.json()["detail"]

    ask()
    return asked


@pytest.mark.timeout(300)
@pytest.mark.parametrize("methods", [("get",), ("post",), ("put", "patch"), ("delete",)], ids="+".join)
def test_made_up_requests_are_answered_as_described(
    operations: list[Any], methods: tuple[str, ...], world: World, admin: User
) -> None:
    _, token = create_api_key(actor=admin, user=admin, name="fuzzing")
    tried = 0
    for operation in operations:
        if operation.method in methods:
            for mode in GenerationMode:
                tried += try_out(operation, mode, token, real(operation, world))
    assert tried >= EACH * len([one for one in operations if one.method in methods])
