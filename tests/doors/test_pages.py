"""Every form and every query of every page, with every bad input: an answer, and never a server error."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from rbac.models import User
from tests.api.test_tenancy import ROWS
from tests.api.world import World
from tests.doors.conftest import Send
from tests.doors.corpus import TEXTS
from tests.doors.forms import Form, Page, queries_of

pytestmark = pytest.mark.django_db

PAGES = [name for name in ROWS if not name.startswith(("api-", "schema", "healthz", "readyz"))]
# Nothing that is refused here leaves the process: these would look for AWS.
COMMON = ("cursor", "page_size", "scope", "next", "tab", "_method", "x" * 300)


ALONE = ("right to left", "long", "beyond 64 bits", "below zero", "year 9999")


def address_of(name: str, world: World) -> str:
    return reverse(name, kwargs=ROWS[name].kwargs(world))


def pages_of(name: str, world: World, client: Client) -> Iterator[Page]:
    """The page itself, and the ones that it leads to on the same address."""
    address = address_of(name, world)
    waiting, seen = [address], set()
    while waiting and len(seen) < 12:
        here = waiting.pop()
        seen.add(here)
        response = client.get(here)
        if response.status_code != 200 or "text/html" not in response["Content-Type"]:
            continue
        page = Page(here, response.content.decode())
        yield page
        waiting += sorted(
            link for link in page.links - seen if link.split("?")[0] == address and link not in waiting
        )


@pytest.fixture
def signed_in_or_not(client: Client, name: str) -> Client:
    return Client() if name == "sign-in" else client


@pytest.mark.parametrize("name", PAGES)
def test_no_query_makes_a_page_fail(name: str, world: World, client: Client, send: Send) -> None:
    pages = list(pages_of(name, world, client))
    links = {link for page in pages for link in page.links}
    asked = {
        form.action + "?" + urlencode(form.fields)
        for page in pages
        for form in page.forms
        if form.method == "get"
    }
    address = address_of(name, world)
    names = queries_of(links | asked).get(address, set()) | set(COMMON)
    for what, text in TEXTS.items():
        response = send("get", f"{address}?{urlencode(dict.fromkeys(sorted(names), text))}")
        assert response.status_code < 500, what
        assert response.status_code != 200 or "\0" not in text, what
    # One at a time too, for a bad value may keep the next one from being looked at.
    for query in sorted(names - {"x" * 300, "scope", "next"}):
        for what in ALONE:
            response = send("get", f"{address}?{urlencode({query: TEXTS[what]})}")
            assert response.status_code < 500, f"?{query}= with {what}"


def fill(form: Form, name: str, text: str) -> dict[str, str]:
    return {**form.fields, name: text}


# A form of twelve fields is posted more than three hundred times.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PAGES)
def test_no_field_makes_a_form_fail(
    name: str, world: World, signed_in_or_not: Client, admin: User, send: Send
) -> None:
    forms = {
        form.key: form
        for page in pages_of(name, world, signed_in_or_not)
        for form in page.forms
        if form.method == "post"
        and not form.action.endswith(("/sign-out/", "/test/"))
        # In the frame of every page: one page is enough.
        and (name == "executions" or not form.action.endswith("/theme/"))
    }
    for form in forms.values():
        for field in form.fields:
            for what, text in TEXTS.items():
                response = send("post", form.action, fill(form, field, text))
                assert response.status_code < 500, f"{form.action} {field} with {what}"
                if "\0" in text:
                    assert response.status_code == 400
                    assert f"{field}: a NUL character" in response.content.decode()


PART = b'--x\r\nContent-Disposition: form-data; name="tag"'
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=x"
STRANGE: dict[str, tuple[bytes, str]] = {
    "JSON": (b'{"tag": "v1"}', "application/json"),
    "no boundary": (b"tag=v1", "multipart/form-data"),
    "cut off": (PART + b"\r\n\r\nv", PARTS),
    "bytes": (b"tag=\xff\xfe\xed\xa0\x80&%ff=%00", FORM),
    "many fields": (b"f=1&" * 1001, FORM),
    "large": (b"tag=" + b"x" * 3_000_000, FORM),
    "charset": (b"tag=v1", f"{FORM}; charset=nowhere"),
    "UTF-7": (b"tag=+ADw-script+AD4-", f"{FORM}; charset=utf-7"),
    "a file": (PART + b'; filename="a"\r\n\r\nv\r\n--x--\r\n', PARTS),
    "base64": (PART + b"\r\nContent-Transfer-Encoding: base64\r\n\r\n!!!\r\n--x--\r\n", PARTS),
    "NUL in a part": (PART + b"\r\n\r\nv\x00\r\n--x--\r\n", PARTS),
    "override": (b"_method=DELETE&tag=v1", FORM),
}


@pytest.mark.parametrize("name", PAGES)
def test_no_strange_body_makes_a_page_fail(name: str, world: World, send: Send) -> None:
    for what, (body, media) in STRANGE.items():
        headers = {"X-HTTP-Method-Override": "DELETE"}
        response = send("generic", "POST", address_of(name, world), body, content_type=media, headers=headers)
        assert response.status_code < 500, what


@pytest.mark.parametrize("name", PAGES)
def test_every_method_has_an_answer(name: str, world: World, send: Send) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"):
        response = send("generic", method, address_of(name, world))
        assert response.status_code < 500, method
        if method in ("PUT", "PATCH", "DELETE", "TRACE", "QUERY"):
            assert response.status_code in (403, 404, 405), f"{method} gets {response.status_code}"
