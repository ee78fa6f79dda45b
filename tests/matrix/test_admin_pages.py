"""Every page of the admin site × everybody: list, add, change, delete and history of every table."""

import pytest
from django.contrib import admin
from django.urls import reverse

from tests.api.required_access import (
    ACCOUNT,
    ADMIN,
    FORBIDDEN,
    GRANTED,
    HERE,
    NOBODY,
    SIBLING,
    Standing,
)
from tests.lanes import is_thorough
from tests.matrix.admin_rows import TABLES, Table
from tests.matrix.conftest import Stage

pytestmark = pytest.mark.django_db
# The framework leads away from a row that is not there, or may not be seen.
LED_AWAY = 302
PAGES = ("list", "add", "change", "delete", "history")
FEW = (
    *(Standing(role, HERE) for role in GRANTED),
    Standing("account_admin", SIBLING),
    Standing("viewer", ACCOUNT),
    ADMIN,
    NOBODY,
)


def test_every_table_has_a_row() -> None:
    assert {model._meta.label_lower for model in admin.site._registry} == set(TABLES)


@pytest.mark.parametrize("label", TABLES)
def test_every_page_is_for_who_has_its_permission(label: str, stage: Stage) -> None:
    table, stem = TABLES[label], f"admin:{label.replace('.', '_')}"
    row = table.row(stage.world).pk
    addresses = {
        "list": reverse(f"{stem}_changelist"),
        "add": reverse(f"{stem}_add"),
        **{page: reverse(f"{stem}_{page}", args=[row]) for page in ("change", "delete", "history")},
    }
    wrong = []
    for standing in choose_standings(label):
        for page, address in addresses.items():
            response = stage.browsers[standing].send_and_undo("get", address)
            if response.status_code != expected(table, page, standing):
                wrong.append(
                    f"{standing}: {page} {response.status_code}, not {expected(table, page, standing)}"
                )
            shows = response.status_code == 200 and addresses["change"] in response.getvalue().decode()
            if page == "list" and shows != standing.has(table.view, table.at):
                wrong.append(f"{standing}: the list {'shows' if shows else 'hides'} it")
    assert wrong == []


def choose_standings(label: str) -> list[Standing]:
    """Return everybody; in the gate one of those with the same answers at the same place."""
    if is_thorough():
        return list(FEW)
    groups: dict[tuple[object, ...], list[Standing]] = {}
    for standing in FEW:
        answers = tuple(expected(TABLES[label], page, standing) for page in PAGES)
        groups.setdefault((standing.place, *answers), []).append(standing)
    turn = list(TABLES).index(label)
    return [several[turn % len(several)] for several in groups.values()]


def expected(table: Table, page: str, standing: Standing) -> int:
    """The status that a page has to answer with; a row that may not be seen is as one that never was."""
    if page in ("list", "add"):
        return (
            200
            if has_table_permission(table, table.view if page == "list" else table.add, standing)
            else FORBIDDEN
        )
    needed = table.delete if page == "delete" else table.view
    if standing.has(table.view, table.at):
        return 200 if standing.has(needed, table.at) else FORBIDDEN
    return LED_AWAY if page == "history" or has_table_permission(table, needed, standing) else FORBIDDEN


def has_table_permission(table: Table, permission: str, standing: Standing) -> bool:
    """Return whether the permission is held: at the account for account tables, else anywhere."""
    return standing.has_anywhere(permission) if table.at.count("/") else standing.has(permission, table.at)
