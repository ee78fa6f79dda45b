"""Every address × an archived project: it is as if it were not there, for the mightiest too."""

from dataclasses import replace

import pytest
from django.utils import timezone

from rbac.models import Scope
from tests.api.requests import Ask
from tests.api.required_access import ADMIN, HERE, ORGANIZATION, Open, SignedIn, Standing
from tests.matrix.conftest import Stage
from tests.matrix.requests import ASKS, fault_of, send

pytestmark = pytest.mark.django_db
MIGHTY = (ADMIN, Standing("organization_admin", ORGANIZATION), Standing("project_admin", HERE))
# People and their own keys are not of the project.
ELSEWHERE = (
    "api-user",
    "api-key",
    "api-key-rotation",
    "person",
    "disable-user",
    "enable-user",
    "reset-second-factor",
    "assign-role-to-person",
    # A permission on the account, and access to the connector, which an archived project takes away.
    "cancel-acceptance-run",
    "delete-acceptance-leftovers",
    "api-cancel-acceptance-run",
    "api-delete-acceptance-leftovers",
)


@pytest.fixture(scope="module")
def archived(stage: Stage) -> Stage:
    """The stage after its project was archived."""
    Scope.objects.filter(path=HERE).update(archived_at=timezone.now())
    return stage


@pytest.mark.parametrize(
    ("turn", "name", "ask"),
    [
        pytest.param(turn, name, ask, id=f"{name}-{ask.method}{ask.query}")
        for turn, (name, ask) in enumerate(ASKS)
        if not isinstance(ask.need, SignedIn | Open) and name not in ELSEWHERE
    ],
)
def test_nothing_of_an_archived_project_is_there(turn: int, name: str, ask: Ask, archived: Stage) -> None:
    # Who reads the account's audit trail reads what was done in archived scopes too.
    mighty = MIGHTY[1:] if name.endswith("audit-entry") else MIGHTY
    standing = mighty[turn % len(mighty)]
    archived_standing = replace(standing, archived=HERE)
    response = send(archived.browsers[standing], name, ask, archived.world)
    assert response.status_code == ask.need.status(archived_standing), standing
    # The account's own audit trail tells an administrator of the member's keys.
    assert standing == ADMIN or not fault_of(ask, archived_standing, response)
