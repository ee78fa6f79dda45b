"""What tests of the API rely on."""

import pytest

from rbac.models import Scope, User
from tests.api.sample_project import World, make_world


@pytest.fixture(autouse=True)
def _builtin_roles(request: pytest.FixtureRequest) -> None:
    """A test that flushed the database may have run before in this process."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("account")


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    """One object of every kind in the project under test."""
    return make_world(project, admin, admin)


@pytest.fixture
def other_world(other_project: Scope, stranger: User, admin: User) -> World:
    """One object of every kind in a project that nobody here may see."""
    return make_world(other_project, stranger, admin)
