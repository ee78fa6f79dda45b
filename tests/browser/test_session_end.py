"""A session that ends while a person fills in a form: nothing that was entered is lost."""

import json

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, WebSocketRoute, expect

from catalog.models import Environment
from pipelines.models import Pipeline
from rbac.models import User
from tests.browser.conftest import Visit
from tests.fixtures.people import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SIGNED_OUT = 4401


class BadgesSocket:
    """The socket of each page, as the server has it: open for a session, and closed at its end."""

    def __init__(self, page: Page) -> None:
        self.sockets: list[WebSocketRoute] = []
        self.is_signed_in = True
        page.route_web_socket("**/ws/approvals/", self._open)

    def _open(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        if self.is_signed_in:
            socket.send(json.dumps({"waiting": 0}))
        else:
            socket.close(code=SIGNED_OUT)

    def end_session(self) -> None:
        self.is_signed_in = False
        self.sockets[-1].close(code=SIGNED_OUT)


@pytest.fixture
def deployer(demo: Pipeline) -> User:
    """The visitor: a user who may change things."""
    person = User.objects.get(username="admin")
    person.set_password(PASSWORD)
    person.save()
    return person


def sign_in_in_another_tab(page: Page, deployer: User) -> None:
    notice = page.get_by_role("alert").filter(has_text="Your session has ended")
    with page.expect_popup() as other_tab:
        notice.get_by_role("link", name="Sign in in another tab").click()
    tab = other_tab.value
    tab.route_web_socket("**/ws/**", lambda socket: None)
    tab.get_by_label("User name").fill(deployer.username)
    tab.get_by_label("Password").fill(PASSWORD)
    tab.get_by_role("button", name="Sign in", exact=True).click()
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    tab.close()


def test_a_form_can_be_sent_after_a_sign_in_in_another_tab(page: Page, visit: Visit, deployer: User) -> None:
    badges = BadgesSocket(page)
    visit("/environments/new/")
    page.get_by_label("Name", exact=True).fill("Staging of today")
    Session.objects.all().delete()
    badges.end_session()
    notice = page.get_by_role("alert").filter(has_text="Your session has ended")
    expect(notice).to_be_visible()
    sign_in_in_another_tab(page, deployer)
    badges.is_signed_in = True
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(notice).to_be_hidden()

    page.get_by_role("button", name="Create environment").click()
    expect(page.get_by_role("heading", name="Staging of today")).to_be_visible()
    assert Environment.objects.filter(name="Staging of today").exists()


def test_the_visual_editor_keeps_its_pipeline_when_the_session_has_ended(
    page: Page, visit: Visit, complaints: list[str], demo: Pipeline, deployer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/?tab=visual")
    page.get_by_role("button", name="Deploy to dev Deploys").click()
    page.get_by_role("form", name="Deploy to dev").get_by_label("Name").fill("Deploy all")
    address = page.url
    Session.objects.all().delete()
    page.get_by_role("button", name="Apply").click()
    notice = page.get_by_role("alert").filter(has_text="Your session has ended")
    expect(notice).to_be_visible()
    assert page.url == address
    # The browser reports every answer that refuses.
    assert all("401" in text for text in complaints)
    complaints.clear()

    sign_in_in_another_tab(page, deployer)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("form", name="Deploy all")).to_be_visible()
    expect(notice).to_be_hidden()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("saved as version 2")).to_be_visible()
