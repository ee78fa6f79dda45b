"""Requests made up from the API's description, by three people: no server error, and answers as described.

`make test-soak` makes up some twenty times as many.
"""

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
from schemathesis.checks import CHECKS, load_all_checks

from inventory.models.adoption import Adoption
from inventory.models.drift import DriftComparison
from rbac.models import User
from rbac.operations.api_keys import create_api_key
from tests.api.extra_objects import acceptance_run
from tests.api.sample_project import World
from tests.fuzz.exceptions import is_expected

pytestmark = pytest.mark.django_db

BOTH, GOOD = tuple(GenerationMode), (GenerationMode.POSITIVE,)
# How often each person asks each of some hundred and forty operations, with what fits the description or not.
EVERY_DAY = {"admin": (2, BOTH), "deployer": (1, GOOD), "viewer": (1, GOOD)}
SOAK = {"admin": (40, BOTH), "deployer": (20, BOTH), "viewer": (20, BOTH)}
# Trying a connector takes a second of waiting for AWS; what it reads of the body, others read too.
SLOW = ("/test", "/preview", "/clusters", "/load-balancers", "/listeners", "/rules", "/repositories")
# These ask again by themselves, with what this transport does not give; tests/api has rows for all of it.
ASKING_AGAIN = {
    "ignored_auth",
    "use_after_free",
    "ensure_resource_availability",
    "object_level_authorization",
    "unsupported_method",
}
# Refused for what it is not, as schemathesis sees it: it waits for other numbers.
REFUSED = (412, 413, 414, 422)


def checks(case: Any, status: int) -> list[Any]:
    """All checks of schemathesis that one answer can be asked for."""
    load_all_checks()
    left_out = set(ASKING_AGAIN)
    for name, failure in (
        ("negative_data_rejection", "AcceptedNegativeData"),
        ("positive_data_acceptance", "RejectedPositiveData"),
    ):
        if status in REFUSED or is_expected(
            case.operation.label, failure, status, query=dict(case.query or {}), body=case.body
        ):
            left_out.add(name)
    return CHECKS.get_by_names([name for name in CHECKS.get_all_names() if name not in left_out])


@pytest.fixture(scope="module")
def operations() -> list[Any]:
    description = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True))
    description.app = WSGIHandler()
    all_operations = [result.ok() for result in description.get_all_operations()]
    return [operation for operation in all_operations if not operation.path.endswith(SLOW)]


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
        "/api/v1/acceptance-runs/": {"id": acceptance_run(world)["pk"]},
        "/api/v1/orgs/": {"org": "default", "project": "demo"},
        "/api/v1/approvals/": {"id": str(world.approval.pk)},
        "/api/v1/api-keys/": {"id": world.key.pk},
        "/api/v1/connectors/": {"id": world.connector.pk},
        "/api/v1/environments/": {"id": world.environment.pk, "infrastructure": world.infrastructure.pk},
        "/api/v1/executions/": {"id": str(world.execution.pk)},
        "/api/v1/file-deletions/": {"id": world.deletion.pk},
        "/api/v1/file-nodes/": {"id": world.file.pk, "version": 1},
        "/api/v1/files/": {"path": "task.yaml"},
        "/api/v1/freeze-windows/": {"id": world.freeze.pk},
        "/api/v1/git-syncs/": {"id": world.git_sync.pk},
        "/api/v1/infrastructures/": {"id": world.infrastructure.pk},
        "/api/v1/drift/": {"id": DriftComparison.objects.earliest("pk").pk},
        "/api/v1/adoptions/": {"id": Adoption.objects.earliest("pk").pk},
        "/api/v1/notification-rules/": {"id": world.notification_rule.pk},
        "/api/v1/notifications/": {"id": str(world.notification.pk)},
        "/api/v1/policy-rules/": {"id": world.policy_rule.pk},
        "/api/v1/input-sets/": {"id": world.input_set.pk},
        "/api/v1/pipelines/": {"id": world.pipeline.pk, "number": 1},
        "/api/v1/triggers/": {"id": world.trigger.pk},
        "/api/v1/trigger-firings/": {"id": str(world.firing.pk)},
        "/api/v1/role-assignments/": {"id": world.assignment.pk},
        "/api/v1/roles/": {"id": world.role.pk},
        "/api/v1/resource-groups/": {"id": world.resource_group.pk},
        "/api/v1/users/": {"id": world.member.pk},
        "/api/v1/user-groups/": {"id": world.user_group.pk},
        "/api/v1/service-accounts/": {"id": world.service_account.pk},
        "/api/v1/secrets/": {"id": world.secret.pk},
        "/api/v1/services/": {"id": world.service.pk},
    }


def build_path_values(operation: Any, world: World) -> dict[str, Any]:
    """The values of an operation's address."""
    candidates = [values for start, values in addresses(world).items() if operation.path.startswith(start)]
    parameter_names = {parameter.name for parameter in operation.path_parameters}
    return {name: value for values in candidates for name, value in values.items() if name in parameter_names}


def send_generated_requests(
    operation: Any, mode: GenerationMode, each: int, token: str, place: dict[str, Any]
) -> int:
    """Ask an operation `each` times, and return how often it was asked."""
    request_count = 0

    @settings(
        max_examples=each,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode, path_parameters=place or None))
    def send_case(case: Any) -> None:
        nonlocal request_count
        request_count += 1
        case.cookies = {}
        with transaction.atomic():
            response = case.call(
                headers={"x-api-key": token, "Authorization": "", "Accept-Encoding": "identity"}
            )
            transaction.set_rollback(True)
        case.validate_response(response, checks=checks(case, response.status_code))
        if response.status_code >= 400:
            assert response.json()["detail"]

    send_case()
    return request_count


def send_all(
    operations: list[Any],
    world: World,
    plan: dict[str, tuple[int, tuple[GenerationMode, ...]]],
    people: tuple[User, ...],
) -> int:
    """Send requests to each operation as each person, and return their number."""
    tried = 0
    for person in people:
        _, token = create_api_key(actor=person, user=person, name="fuzzing")
        each, modes = plan[person.username]
        for operation in operations:
            for mode in modes:
                tried += send_generated_requests(
                    operation, mode, each, token, build_path_values(operation, world)
                )
    return tried


METHODS = pytest.mark.parametrize(
    "methods", [("get",), ("post",), ("put", "patch"), ("delete",)], ids="+".join
)


@METHODS
@pytest.mark.timeout(300)
def test_made_up_requests_are_answered_as_described(
    operations: list[Any], methods: tuple[str, ...], world: World, admin: User, deployer: User, viewer: User
) -> None:
    selected = [operation for operation in operations if operation.method in methods]
    assert send_all(selected, world, EVERY_DAY, (admin, deployer, viewer)) >= 3 * len(selected)


@METHODS
@pytest.mark.soak
def test_many_more_of_them_are_answered_as_described(
    operations: list[Any], methods: tuple[str, ...], world: World, admin: User, deployer: User, viewer: User
) -> None:
    selected = [operation for operation in operations if operation.method in methods]
    assert send_all(selected, world, SOAK, (admin, deployer, viewer)) >= 20 * len(selected)
