"""What tests of access rely on."""

import pytest

from rbac.models import Scope, User
from tests.fixtures.people import make_person


@pytest.fixture(autouse=True)
def _builtin_roles(request: pytest.FixtureRequest) -> None:
    """A test that flushed the database may have run before in this process."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("account")


@pytest.fixture
def organization(project: Scope) -> Scope:
    scope = project.parent
    assert scope is not None
    return scope


@pytest.fixture
def org_admin(organization: Scope) -> User:
    return make_person("org_admin", "organization_admin", organization)
