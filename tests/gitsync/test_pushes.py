"""Webhooks of Git syncs: a signed push to the branch has the sync look at it now."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client

from connectors.models import Connector
from delegates.models import LookupRequest
from gitsync.models import GitSync
from gitsync.operations import set_up_hook
from gitsync.pushes import build_hook_address
from rbac.models import AuditEntry, Scope, User
from tests.gitsync.conftest import send_push
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
Send = Callable[..., HttpResponse]


@pytest.fixture
def sync(project: Scope) -> GitSync:
    return GitSync.objects.create(
        scope=project, identifier="demo", name="Demo", branch="main", due_at=get_database_time()
    )


@pytest.fixture
def send(sync: GitSync, admin: User) -> Send:
    """Send a push as GitHub does, with the secret of the webhook or another one."""
    hook, secret = set_up_hook(actor=admin, sync=sync, provider="github")

    def post(ref: str = "refs/heads/main", *, key: Any = hook.key, secret: str = secret) -> HttpResponse:
        return send_push(key, secret, ref)

    assert build_hook_address(hook).endswith(f"/hooks/v1/git-syncs/{hook.key}/")
    return post


def test_a_push_to_the_branch_makes_the_sync_due_however_often_it_is_delivered(
    sync: GitSync, send: Send, admin: User
) -> None:
    before = sync.due_at
    connector = Connector.objects.create(scope=sync.scope, identifier="git", name="Git", kind="Git")
    sync.lookup = LookupRequest.objects.create(
        connector=connector,
        kind=LookupRequest.Kind.FILES,
        requested_by=admin,
        requested_at=get_database_time(),
    )
    sync.save(update_fields=["lookup"])
    for _ in range(2):
        answer = send()
        assert (answer.status_code, json.loads(answer.content)) == (202, {"is_push": True})
    sync.refresh_from_db()
    assert before
    assert sync.due_at
    assert sync.due_at > before
    assert (sync.is_requested, sync.cause) == (False, "PUSH")
    assert sync.lookup is not None, "a fetch goes on"
    assert sync.hook.pushed_at == sync.due_at


def test_other_pushes_and_wrong_secrets_change_nothing(sync: GitSync, send: Send) -> None:
    assert json.loads(send("refs/heads/other").content) == {"is_push": False}
    assert json.loads(send("refs/tags/main").content) == {"is_push": False}
    assert send(secret="wrong").status_code == 401
    assert send(key=uuid4()).status_code == 404
    sync.hook.refresh_from_db()
    assert sync.hook.pushed_at is None


def test_a_disabled_sync_stays_so(sync: GitSync, send: Send) -> None:
    GitSync.objects.update(is_enabled=False, due_at=None)
    assert send().status_code == 202
    sync.refresh_from_db()
    assert sync.due_at is None


def test_the_secret_is_shown_once_and_replaced(sync: GitSync, send: Send, admin: User) -> None:
    client = Client()
    client.force_login(admin)
    page = client.post(f"/git-syncs/{sync.pk}/webhook/", {"provider": "github"}).content.decode()
    sync.hook.refresh_from_db()
    assert sync.hook.secret in page
    assert "Payload URL" in page
    assert send().status_code == 401
    assert send(secret=sync.hook.secret).status_code == 202
    assert sync.hook.secret not in client.get(f"/git-syncs/{sync.pk}/").content.decode()
    audited = AuditEntry.objects.filter(action="gitsync.set_up_hook")
    assert audited.count() == 2
    assert sync.hook.secret not in str(list(audited.values("after")))
