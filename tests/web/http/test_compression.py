"""Pages and answers travel compressed, and what depends on their bytes still works."""

import gzip
from collections.abc import Callable

import pytest
from django.test import Client

from rbac.models import Scope, User
from tests.api.sample_project import CANARY, World, make_world

pytestmark = pytest.mark.django_db

Browse = Callable[[User], Client]
ZIPPED = {"HTTP_ACCEPT_ENCODING": "gzip, deflate, br"}


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.mark.parametrize("path", ["/deployments/", "/api/v1/services"])
def test_a_browser_that_can_unpack_gets_less_than_half_of_the_bytes(
    path: str, world: World, admin: User, browse: Browse
):
    reader = browse(admin)
    plain, packed = reader.get(path), reader.get(path, **ZIPPED)
    assert packed["Content-Encoding"] == "gzip"
    assert CANARY in gzip.decompress(packed.content).decode()
    assert len(packed.content) < len(plain.content) * (0.5 if path.startswith("/d") else 0.9)


def test_the_version_of_a_compressed_answer_can_be_named_in_a_change(
    world: World, admin: User, browse: Browse
):
    client, path = browse(admin), f"/api/v1/services/{world.service.pk}"
    version = client.get(path, **ZIPPED)["ETag"]
    change = {"data": {"name": "Changed"}, "content_type": "application/json", "HTTP_IF_MATCH": version}
    assert client.put(path, **change).status_code == 200
    assert client.put(path, **change).status_code == 412


def test_the_length_of_an_answer_does_not_tell_two_contents_apart(world: World, admin: User, browse: Browse):
    reader = browse(admin)
    assert len({len(reader.get("/api/v1/services", **ZIPPED).content) for _ in range(12)}) > 1
