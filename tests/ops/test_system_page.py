"""The page System shows what is wrong with the installation, and the fix."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ops.models import ServerProcess
from rbac.models import User

pytestmark = pytest.mark.django_db


def read_page(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.get("/system/").content.decode()


def test_a_broker_that_is_away_is_named_with_the_fix(admin: User, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1"
    page = read_page(admin)

    assert "1 check failed" in page
    assert "The broker does not answer" in page
    assert "Check REDIS_URL" in page
    assert "Not checked without broker." in page


@pytest.mark.usefixtures("live_broker")
def test_processes_are_listed_with_their_last_sign_of_life(admin: User) -> None:
    now = timezone.now()
    for role, pid, silence in (("WEB", 1, 2), ("WORKER", 2, 300)):
        ServerProcess.objects.create(
            role=role,
            hostname="ip-10-0-0-9",
            pid=pid,
            version="0.1.0",
            started_at=now - timedelta(hours=1),
            seen_at=now - timedelta(seconds=silence),
        )
    page = read_page(admin)

    assert "ip-10-0-0-9, process 1" in page
    assert page.count(">Alive<") == 1
    assert page.count(">Silent<") == 1
    assert "The worker process 2 on ip-10-0-0-9 gives no sign of life." in page


def test_only_account_administrators_see_it(deployer: User) -> None:
    client = Client()
    client.force_login(deployer)

    assert client.get("/system/").status_code in (403, 404)
