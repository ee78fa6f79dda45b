"""Every form and every query of every page, with every bad input: an answer, and never a server error."""

from collections.abc import Iterator, Sequence
from itertools import product
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from tests.api.rows import ROWS
from tests.api.sample_project import World
from tests.invalid_input.conftest import Send
from tests.invalid_input.form_discovery import Form, Page, queries_of
from tests.invalid_input.invalid_values import TEXTS

pytestmark = pytest.mark.django_db

PAGES = [name for name in ROWS if not name.startswith(("api-", "schema"))]
# Nothing that is refused here leaves the process: these would look for AWS.
COMMON = ("cursor", "page_size", "scope", "next", "tab", "_method", "x" * 300)


# Enough of the corpus to reach every way in which a page reads a value: each request draws a page.
SHARP = ("NUL", "right to left", "long", "beyond 64 bits", "deep")
ALONE = ("NUL", "beyond 64 bits")


def address_of(name: str, world: World) -> str:
    return reverse(name, kwargs=ROWS[name].kwargs(world))


def pages_of(name: str, world: World, client: Client) -> Iterator[Page]:
    """The page itself, and the ones that it leads to on the same address."""
    address = address_of(name, world)
    waiting, visited = [address], set()
    while waiting and len(visited) < 5:
        current = waiting.pop()
        visited.add(current)
        response = client.get(current)
        if response.status_code != 200 or "text/html" not in response["Content-Type"]:
            continue
        page = Page(current, response.content.decode())
        yield page
        waiting += sorted(
            link for link in page.links - visited if link.split("?")[0] == address and link not in waiting
        )


def list_queries(address: str, pages: list[Page]) -> list[str]:
    """The names of every query that links and forms of the page know."""
    links = {link for page in pages for link in page.links}
    form_links = {
        form.action + "?" + urlencode(form.fields)
        for page in pages
        for form in page.forms
        if form.method == "get"
    }
    return sorted(queries_of(links | form_links).get(address, set()) | set(COMMON))


def spoil(names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """All names spoilt in one request: alike by what fails most often, then each by another text."""
    for kind in ALONE:
        yield kind, dict.fromkeys(names, TEXTS[kind])
    texts = [TEXTS[kind] for kind in SHARP if kind not in ALONE]
    yield "each another", {name: texts[at % len(texts)] for at, name in enumerate(names)}


def send_queries(address: str, pages: list[Page], send: Send) -> None:
    """Send all queries in one request."""
    for kind, texts in spoil(list_queries(address, pages)):
        response = send("get", f"{address}?{urlencode(texts)}")
        assert response.status_code < 500, texts
        assert response.status_code != 200 or kind != "NUL", kind


def list_forms(address: str, pages: list[Page]) -> list[Form]:
    """The forms that the page sends, those in its frame only from one page."""
    forms = {
        form.key: form
        for page in pages
        for form in page.forms
        if form.method == "post"
        and not form.action.endswith(("/sign-out/", "/test/"))
        and (address == reverse("executions") or not form.action.endswith("/theme/"))
    }
    return list(forms.values())


def send_forms(address: str, pages: list[Page], send: Send) -> None:
    """Send every form with all of its fields spoilt in one request."""
    for form in list_forms(address, pages):
        for kind, fields in spoil(list(form.fields)):
            response = send("post", form.action, fields)
            assert response.status_code < 500, f"{form.action} with {fields}"
            if kind == "NUL":
                assert response.status_code == 400 or not fields
                assert ": a NUL character" in response.content.decode() or not fields


PART = b'--x\r\nContent-Disposition: form-data; name="tag"'
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=x"
NO_SUCH_METHOD = 405
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


def send_strange(address: str, send: Send) -> None:
    """Bodies that are no form."""
    if send("post", address).status_code == NO_SUCH_METHOD:
        return
    for kind, (body, media) in STRANGE.items():
        headers = {"X-HTTP-Method-Override": "DELETE"}
        response = send("generic", "POST", address, body, content_type=media, headers=headers)
        assert response.status_code < 500, kind


def send_other_methods(address: str, send: Send) -> None:
    """With methods that pages do not have."""
    for method in ("PUT", "PATCH", "DELETE", "TRACE", "QUERY", "OPTIONS", "HEAD"):
        response = send("generic", method, address)
        assert response.status_code < 500, method
        if method not in ("OPTIONS", "HEAD"):
            assert response.status_code in (403, 404, 405), f"{method} gets {response.status_code}"


@pytest.fixture
def pages(name: str, world: World, client: Client) -> list[Page]:
    return list(pages_of(name, world, Client() if name == "sign-in" else client))


@pytest.mark.parametrize("name", PAGES)
def test_no_bad_input_makes_a_page_fail(name: str, world: World, pages: list[Page], send: Send) -> None:
    address = address_of(name, world)
    send_queries(address, pages, send)
    send_other_methods(address, send)
    send_forms(address, pages, send)


@pytest.mark.parametrize("name", PAGES)
def test_no_strange_body_makes_a_page_fail(name: str, world: World, send: Send) -> None:
    send_strange(address_of(name, world), send)


# One at a time, for a bad value may keep the next one from being looked at: some fifty requests a page.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PAGES)
def test_no_bad_value_alone_makes_a_page_fail(name: str, world: World, pages: list[Page], send: Send) -> None:
    address = address_of(name, world)
    for query in list_queries(address, pages):
        response = send("get", f"{address}?{urlencode({query: TEXTS['beyond 64 bits']})}")
        assert response.status_code < 500, query
    for form in list_forms(address, pages):
        for field, kind in product(form.fields, ALONE):
            response = send("post", form.action, {**form.fields, field: TEXTS[kind]})
            assert response.status_code < 500, f"{form.action}: {field} with {kind}"
