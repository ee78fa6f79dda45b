"""The demo project, deployed and looked at; what stands in it, and who reads its pages."""

import pytest
from django.test import Client

from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.deployments.conftest import _full_buckets, drive

__all__ = ["_full_buckets", "drive"]


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    """One of each thing in the project, with an execution that runs."""
    return make_world(project, admin, admin)


@pytest.fixture
def reader(admin: User) -> Client:
    """A browser of the administrator."""
    client = Client()
    client.force_login(admin)
    return client
