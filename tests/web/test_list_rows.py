"""A list has 25 rows per page, or 50 or 100 if its reader chooses so."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from catalog.models import Environment
from rbac.models import Scope, User
from web.forms.lists import ROW_CHOICES

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
LIST = "/environments/"


@pytest.fixture
def client(project: Scope, admin: User, browse: Browse) -> Client:
    Environment.objects.bulk_create(
        Environment(scope=project, identifier=f"env{number:03}", name=f"Environment {number:03}")
        for number in range(60)
    )
    return browse(admin)


def list_names(client: Client, address: str) -> list[str]:
    return re.findall(r"Environment \d+(?=<)", client.get(address).content.decode())


def find_choice(page: str, rows: int) -> str:
    """Return the address of the link that chooses so many rows."""
    address = re.search(rf'href="([^"]*)" aria-label="{rows} rows"', page)
    assert address is not None
    return LIST + address[1].replace("&amp;", "&")


def test_a_list_begins_with_25_rows_and_goes_on_with_the_next(client: Client):
    first = list_names(client, f"{LIST}?sort=name")
    page = client.get(f"{LIST}?sort=name").content.decode()
    following = re.search(r'href="([^"]*)" rel="next"', page)
    assert following is not None
    second = list_names(client, following[1].replace("&amp;", "&"))
    assert len(first) == len(second) == 25
    assert first + second == [f"Environment {number:03}" for number in range(50)]


def test_a_reader_chooses_the_rows_and_keeps_filter_and_order(client: Client):
    page = client.get(f"{LIST}?sort=name&q=environment").content.decode()
    addresses = {rows: find_choice(page, rows) for rows in ROW_CHOICES}
    assert {rows: len(list_names(client, address)) for rows, address in addresses.items()} == {
        25: 25,
        50: 50,
        100: 60,
    }
    whole = client.get(addresses[100]).content.decode()
    assert 'name="page_size" value="100"' in whole, "the form of the filter keeps the rows"
    assert 'value="environment"' in whole
    assert len(list_names(client, find_choice(whole, 25))) == 25, "the way back, though all is on one page"


@pytest.mark.parametrize("size", ["0", "-1", "x", "1000000", "%00"])
def test_a_strange_number_of_rows_is_refused(client: Client, size: str):
    assert client.get(f"{LIST}?page_size={size}").status_code == 400
