"""Pages and API of daemons: what runs on managed instances, for those who may view the environment."""

import pytest
from django.test import Client

from catalog.models import Infrastructure
from tests.contract.endpoint import Aws
from tests.contract.managed_instances import create_daemon
from tests.fixtures.engine_driver import Drive
from tests.inventory.sync.test_daemons import aws
from tests.inventory.sync.test_sync import sync

__all__ = ["aws"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_a_daemon_is_shown_with_its_instances_image_and_deployment(
    drive: Drive, aws: Aws, client: Client
) -> None:
    create_daemon(aws, "managed")
    aws.advance(60)
    sync()
    client.force_login(drive.deployer)
    place = Infrastructure.objects.get()
    environment = client.get(f"/environments/{place.environment_id}/").content.decode()
    assert f'<a href="/infrastructures/{place.pk}/daemons/">1 daemon</a>' in environment
    page = client.get(f"/infrastructures/{place.pk}/daemons/").content.decode()
    for text in ("monitoring-agent:v1", "monitoring-agent:1", "1 running", "Successful", ">managed<"):
        assert text in page
    (daemon,) = client.get(f"/api/v1/infrastructures/{place.pk}/daemons").json()["results"]
    assert (daemon["name"], daemon["running"], daemon["deployment_status"]) == ("monitoring", 1, "SUCCESSFUL")
    assert daemon["capacity_providers"] == [{"name": "managed", "running": 1, "without_daemon": 0}]


def test_a_denied_read_names_the_permission(drive: Drive, aws: Aws, client: Client) -> None:
    drive.sandbox.fault("denied", operation="ListDaemons")
    sync()
    client.force_login(drive.deployer)
    page = client.get(f"/infrastructures/{Infrastructure.objects.get().pk}/daemons/").content.decode()
    assert "Missing permission: allow <code>ecs:ListDaemons</code>" in page
    assert "No daemons" in page
