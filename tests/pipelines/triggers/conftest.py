"""A project with a pipeline, and a webhook that starts it."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from notifications.channels.webhook import compute_signature
from pipelines.models import Trigger
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world

Send = Callable[..., HttpResponse]


@pytest.fixture(autouse=True)
def _no_requests_yet() -> None:
    """Counters of other tests would refuse requests here."""
    cache.clear()


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def trigger(world: World) -> Trigger:
    """A webhook that deploys the tag in its payload."""
    return world.trigger


def sign(secret: str, body: bytes, at: float) -> dict[str, str]:
    """Return the headers of a signed request."""
    return {
        "Slipway-Timestamp": str(int(at)),
        "Slipway-Signature": f"v1={compute_signature(secret, int(at), body)}",
    }


@pytest.fixture
def send(trigger: Trigger) -> Send:
    """A program that knows the secret and sends signed JSON."""

    def send_request(
        payload: Any = None, *, body: bytes = b"", at: float = 0, secret: str = "", **headers: str
    ) -> HttpResponse:
        content = body or json.dumps({"tag": "v2"} if payload is None else payload).encode()
        signed = sign(secret or trigger.secret, content, at or time.time())
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        address = reverse("trigger-hook", args=[trigger.key])
        return Client(enforce_csrf_checks=True).post(
            address, content, content_type="application/json", headers=signed | extra
        )

    return send_request
