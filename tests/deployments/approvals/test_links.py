"""Links of approval messages: they lead to the page of the approval, and decide nothing."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core import signing
from django.test import Client
from django.utils import timezone

from deployments.approvals.links import build_approval_link
from deployments.models import Approval, ApprovalDecision
from notifications.events import EventType
from notifications.outbox_sender import send_due_notifications
from rbac.models import Scope, User
from tests.deployments.approvals.conftest import Panel, panel
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.people import PASSWORD
from tests.notifications.conftest import Ruled, receiver, ruled
from tests.notifications.webhook_receiver import Receiver

__all__ = ["_full_buckets", "drive", "panel", "receiver", "ruled"]


@pytest.fixture
def link(panel: Panel, receiver: Receiver, ruled: Ruled) -> str:
    """The path of the link in the message about an approval that waits."""
    ruled(Scope.objects.get(path="account/default/demo"), EventType.APPROVAL_WAITING)
    panel.insert_approval(approvalMessage="Look at the plan first")
    panel.start()
    send_due_notifications()
    (document,) = (request.document for request in receiver.received)
    return urlsplit(document["action_url"]).path


def sign_in(panel: Panel, user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_the_link_leads_an_approver_to_the_page_and_decides_nothing(panel: Panel, link: str) -> None:
    approval = Approval.objects.get()
    client = sign_in(panel, panel.alice)
    response = client.get(link)
    assert (response.status_code, response["Location"]) == (302, f"/approvals/{approval.pk}/")
    assert "Look at the plan first" in client.get(response["Location"]).content.decode()
    assert client.post(link).status_code == 405
    assert not ApprovalDecision.objects.exists()
    assert Approval.objects.get().status == Approval.Status.WAITING


def test_the_link_asks_for_sign_in_first_and_leads_on_afterwards(panel: Panel, link: str) -> None:
    client = Client()
    page = client.get(link, follow=True).content.decode()
    assert f'name="next" value="{link}"' in page
    fields = {"username": panel.alice.username, "password": PASSWORD, "next": link}
    answer = client.post("/sign-in/", fields)
    assert (answer.status_code, answer["Location"]) == (302, link)


def test_the_link_gives_no_permission(panel: Panel, link: str) -> None:
    stranger = User.objects.create_user("stranger")
    assert sign_in(panel, stranger).get(link).status_code == 404
    viewer = sign_in(panel, panel.outsider)
    page = viewer.get(link, follow=True).content.decode()
    assert 'name="verdict"' not in page
    answer = viewer.post(f"/approvals/{Approval.objects.get().pk}/decide/", {"verdict": "approve"})
    assert answer.status_code == 403
    assert not ApprovalDecision.objects.exists()


def test_a_changed_link_leads_nowhere(panel: Panel, link: str) -> None:
    client = sign_in(panel, panel.alice)
    other = signing.dumps([Approval.objects.get().pk.hex, 1, 2**40], salt="of something else")
    for token in (link.rstrip("/")[:-1] + "/", f"/approvals/links/{other}/", "/approvals/links/x/"):
        assert client.get(token).status_code == 404


def test_an_expired_link_leads_to_the_list(panel: Panel, link: str) -> None:
    approval = Approval.objects.get()
    approval.expires_at = timezone.now() - timedelta(seconds=1)
    response = sign_in(panel, panel.alice).get(build_approval_link(approval), follow=True)
    assert response.redirect_chain[-1][0] == "/approvals/"
    assert "This link has expired" in response.content.decode()


def test_a_plan_that_was_made_after_the_message_is_announced(panel: Panel, link: str) -> None:
    client = sign_in(panel, panel.alice)
    announcement = "The plan was updated after the message"
    assert announcement not in client.get(link, follow=True).content.decode()
    Approval.objects.update(refreshes_requested=2)
    assert announcement in client.get(link, follow=True).content.decode()
