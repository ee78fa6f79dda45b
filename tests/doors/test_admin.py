"""Every form, list and search of the admin site with every bad input: an answer, never a server error."""

import re
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.test import Client

from rbac.models import ApiKey, Role, Scope, User
from tests.api.world import World
from tests.doors.conftest import Send
from tests.doors.corpus import TEXTS
from tests.doors.forms import Form, Page

pytestmark = pytest.mark.django_db
REGISTERED = sorted(model._meta.label_lower.replace(".", "/") for model in admin.site._registry)
LISTS = [f"/admin/{label}/" for label in REGISTERED]
QUERIES = (
    "q",
    "o",
    "p",
    "all",
    "e",
    "_facets",
    "_popup",
    "_to_field",
    "id__exact",
    "pk__in",
    "name__regex",
    "user__password__startswith",
)
# Enough of the corpus to reach every way in which a form of the framework reads a value.
SHARP = (
    "NUL",
    "right to left",
    "line ends",
    "long",
    "many digits",
    "beyond 64 bits",
    "not a number",
    "year 9999",
)


def forms_of(client: Client, address: str) -> list[Form]:
    response = client.get(address, follow=True)
    if response.status_code != 200:
        return []
    page = Page(address, response.content.decode())
    return [
        form
        for form in page.forms
        if form.method == "post" and "log" not in form.action and "sign" not in form.action
    ]


def sharp_fields(form: Form) -> list[str]:
    """The fields to try: of rows that are entered in one form, the first two, since all are read alike."""
    return [name for name in form.fields if not re.search(r"-([2-9]|\d\d+|__prefix__)-", name)]


@pytest.mark.parametrize("address", LISTS)
def test_no_query_makes_a_list_fail(address: str, world: World, send: Send) -> None:
    for query in QUERIES:
        for text in ("(", "9" * 400, "9223372036854775808"):
            response = send("get", f"{address}?{urlencode({query: text})}")
            assert response.status_code < 500, f"?{query}={text}"


@pytest.mark.parametrize("address", LISTS)
def test_no_key_in_an_address_makes_it_fail(address: str, world: World, send: Send) -> None:
    for key in ("0", "-1", "99999999999999999999", "x", "%00", "1/x", "%F0%9F%9A%A2", "..%2f", "1" * 5000):
        for page in ("change", "delete", "history"):
            assert send("get", f"{address}{key}/{page}/", follow=True).status_code < 500, key


@pytest.mark.parametrize("address", [f"{address}add/" for address in LISTS])
def test_no_field_makes_a_form_fail(address: str, world: World, client: Client, send: Send) -> None:
    for form in forms_of(client, address):
        for field in sharp_fields(form):
            for what in SHARP:
                response = send("post", address, {**form.fields, field: TEXTS[what]})
                assert response.status_code < 500, f"{field} with {what}"
                if what == "NUL":
                    assert f"{field}: a NUL character" in response.content.decode()


def test_no_field_makes_a_change_fail(world: World, client: Client, send: Send, admin: User) -> None:
    for row in (
        world.scope,
        world.role,
        world.member,
        world.user_group,
        world.resource_group,
    ):
        address = f"/admin/rbac/{row._meta.model_name}/{row.pk}/change/"
        forms = forms_of(client, address)
        assert forms
        for form in forms:
            for field in sharp_fields(form):
                for what in SHARP:
                    response = send("post", address, {**form.fields, field: TEXTS[what]})
                    assert response.status_code < 500, f"{address} {field} with {what}"


@pytest.mark.parametrize("what", ["right to left", "zero width", "escape", "line ends"])
def test_no_name_of_access_can_mislead(what: str, world: World, admin: User, client: Client) -> None:
    json, name = {"content_type": "application/json"}, TEXTS[what]
    here = {"org": "default", "project": "demo"}
    for address, body in {
        "/api/v1/orgs": {"identifier": "x"},
        "/api/v1/orgs/default/projects": {"identifier": "x"},
        "/api/v1/roles": {"identifier": "x", "permissions": [], **here},
        "/api/v1/api-keys": {},
    }.items():
        response = client.post(address, {**body, "name": name}, **json)
        assert response.status_code == 400, address
        assert [error["path"] for error in response.json()["errors"]] == ["name"]
    for model in (Scope, Role, ApiKey):
        assert not model.objects.filter(name=name).exists()
