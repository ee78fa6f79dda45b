"""Every form, list and search of the admin site with every bad input: an answer, never a server error."""

import re
from collections.abc import Iterator
from itertools import product
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.test import Client

from rbac.models import ApiKey, Role, Scope, User
from tests.api.sample_project import World
from tests.invalid_input.conftest import Send
from tests.invalid_input.form_discovery import Form, Page
from tests.invalid_input.invalid_values import TEXTS

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


def select_fields(form: Form) -> list[str]:
    """The fields to try: of rows that are entered in one form, the first two, since all are read alike."""
    return [name for name in form.fields if not re.search(r"-([2-9]|\d\d+|__prefix__)-", name)]


@pytest.mark.parametrize("address", LISTS)
def test_no_query_makes_a_list_fail(address: str, world: World, send: Send) -> None:
    for query in QUERIES:
        response = send("get", f"{address}?{urlencode({query: '9223372036854775808'})}")
        assert response.status_code < 500, query
    for text in ("(", "9" * 400):
        # Django refuses a list that is filtered by what it does not know, so that one is asked for alone.
        for queries in (QUERIES, ("q", "o", "p")):
            response = send("get", f"{address}?{urlencode(dict.fromkeys(queries, text))}")
            assert response.status_code < 500, text


@pytest.mark.parametrize("address", LISTS)
def test_no_key_in_an_address_makes_it_fail(address: str, world: World, send: Send) -> None:
    for key in ("0", "-1", "99999999999999999999", "x", "%00", "1/x", "%F0%9F%9A%A2", "..%2f", "1" * 5000):
        for page in ("change", "delete", "history"):
            assert send("get", f"{address}{key}/{page}/", follow=True).status_code < 500, key


def rotate_texts(form: Form) -> Iterator[dict[str, str]]:
    """All fields spoilt in one request, each by another text, until each had every text."""
    names, texts = select_fields(form), [TEXTS[kind] for kind in SHARP if kind != "NUL"]
    for turn in range(len(texts) if names else 0):
        yield {**form.fields} | {name: texts[(at + turn) % len(texts)] for at, name in enumerate(names)}


def changes_of(world: World, client: Client) -> Iterator[tuple[str, Form]]:
    """The forms that change a row."""
    for row in (world.scope, world.role, world.member, world.user_group, world.resource_group):
        address = f"/admin/rbac/{row._meta.model_name}/{row.pk}/change/"
        forms = forms_of(client, address)
        assert forms
        yield from ((address, form) for form in forms)


def send_alone(address: str, form: Form, send: Send) -> None:
    """Send a form once for each field and text."""
    for field, kind in product(select_fields(form), SHARP):
        response = send("post", address, {**form.fields, field: TEXTS[kind]})
        assert response.status_code < 500, f"{address} {field} with {kind}"


@pytest.mark.parametrize("address", [f"{address}add/" for address in LISTS])
def test_no_field_makes_a_form_fail(address: str, world: World, client: Client, send: Send) -> None:
    for form in forms_of(client, address):
        for fields in rotate_texts(form):
            assert send("post", address, fields).status_code < 500, fields
        for field in select_fields(form):
            response = send("post", address, {**form.fields, field: TEXTS["NUL"]})
            assert f"{field}: a NUL character" in response.content.decode()


def test_no_field_makes_a_change_fail(world: World, client: Client, send: Send) -> None:
    for address, form in changes_of(world, client):
        for fields in rotate_texts(form):
            assert send("post", address, fields).status_code < 500, f"{address} with {fields}"


@pytest.mark.parametrize("address", [f"{address}add/" for address in LISTS])
def test_no_field_alone_makes_a_form_fail(address: str, world: World, client: Client, send: Send) -> None:
    for form in forms_of(client, address):
        send_alone(address, form, send)


def test_no_field_alone_makes_a_change_fail(world: World, client: Client, send: Send) -> None:
    for address, form in changes_of(world, client):
        send_alone(address, form, send)


@pytest.mark.parametrize("kind", ["right to left", "zero width", "escape", "line ends"])
def test_no_name_of_access_can_mislead(kind: str, world: World, admin: User, client: Client) -> None:
    json, name = {"content_type": "application/json"}, TEXTS[kind]
    scope = {"org": "default", "project": "demo"}
    for address, body in {
        "/api/v1/orgs": {"identifier": "x"},
        "/api/v1/orgs/default/projects": {"identifier": "x"},
        "/api/v1/roles": {"identifier": "x", "permissions": [], **scope},
        "/api/v1/api-keys": {},
    }.items():
        response = client.post(address, {**body, "name": name}, **json)
        assert response.status_code == 400, address
        assert [error["path"] for error in response.json()["errors"]] == ["name"]
    for model in (Scope, Role, ApiKey):
        assert not model.objects.filter(name=name).exists()
