"""What tests of access rely on."""

import pytest


@pytest.fixture(autouse=True)
def _builtin_roles(request: pytest.FixtureRequest) -> None:
    """A test that flushed the database may have run before in this process."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("account")
