"""One person for each standing, and a browser for each that costs as little as can be."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.test import Client, RequestFactory
from django.test.client import ClientHandler

from rbac.models import Role, RoleAssignment, Scope, User
from tests.api.required_access import EVERY_STANDING, Standing
from tests.fixtures.people import make_project
from tests.secret_watch.marker import planted

Principal = User | AnonymousUser


class Browser(RequestFactory):
    """Sends requests as one person; unlike a test client it keeps nothing of what was drawn."""

    handler = ClientHandler(enforce_csrf_checks=False)

    def request(self, **request: Any) -> Any:
        return self.handler(self._base_environ(**request))  # type: ignore[attr-defined]

    def send_and_undo(self, method: str, address: str, *args: Any, **kwargs: Any) -> Any:
        """Send one request and roll back its changes."""
        with transaction.atomic():
            response = getattr(self, method)(address, *args, **kwargs)
            transaction.set_rollback(True)
        return response


def make_people() -> dict[Standing, User]:
    """A person for each standing; all are staff, so that the admin site decides by roles alone."""
    for path in ("default/demo", "default/sibling", "other/elsewhere"):
        make_project(*path.split("/"))
    scopes = {scope.path: scope for scope in Scope.objects.all()}
    roles = {role.identifier: role for role in Role.objects.filter(scope=None)}
    people: dict[Standing, User] = {}
    for number, standing in enumerate(EVERY_STANDING):
        person = User.objects.create_user(
            f"person{number}", password=planted("correct horse battery"), is_staff=True
        )
        if standing.role:
            role, scope = roles[standing.role], scopes[standing.place]
            RoleAssignment.objects.create(user=person, role=role, scope=scope)
        people[standing] = person
    return people


def address_of(person: User) -> str:
    """Return a separate client address for each person, since some limits count by it."""
    return f"10.0.{person.pk // 256 % 256}.{person.pk % 256}"


def browser_of(person: User | None) -> Browser:
    """Return a browser signed in as `person`, or signed out."""
    if person is None:
        return Browser()
    signed_in = Client()
    signed_in.force_login(person)
    browser = Browser(REMOTE_ADDR=address_of(person))
    browser.cookies = signed_in.cookies
    return browser
