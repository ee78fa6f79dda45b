"""Support of the agent's releases: six months from their date; an unknown one is never outdated."""

from datetime import UTC, date, datetime
from types import MappingProxyType

import pytest
from django.test import Client

from delegates import releases
from delegates.models import Delegate
from delegates.queries.delegates import filter_outdated, list_delegate_facts, prefetch_instances
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate, make_instance

DATES = MappingProxyType({"0.1.0": date(2020, 8, 31), "0.2.0": date(2020, 9, 30)})


@pytest.fixture
def _published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "RELEASE_DATES", DATES)


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize(
    ("versions", "today", "since"),
    [
        (["0.1.0"], date(2021, 2, 27), None),
        (["0.1.0"], date(2021, 2, 28), date(2021, 2, 28)),
        (["0.2.0"], date(2021, 3, 29), None),
        (["0.2.0", "0.1.0"], date(2021, 3, 30), date(2021, 2, 28)),
        (["7.0.0", ""], date(2041, 1, 1), None),
    ],
)
def test_a_release_is_supported_for_six_months_unless_it_is_unknown(
    versions: list[str], today: date, since: date | None
) -> None:
    assert releases.find_unsupported_since(versions, today) == since


@pytest.mark.django_db
@pytest.mark.usefixtures("_published")
def test_list_page_and_filter_mark_outdated_delegates_alone(
    project: Scope, viewer: User, client: Client
) -> None:
    client.force_login(viewer)
    old = make_delegate(project, "old")
    make_instance(old, "a/10.0.0.1", version="0.1.0")
    make_instance(old, "b/10.0.0.2", version="unknown")
    make_instance(make_delegate(project, "strange"), "c/10.0.0.3", version="unknown")
    make_instance(make_delegate(project, "past"), "d/10.0.0.4", version="0.1.0", status="GONE")
    for path in ("/delegates/", f"/delegates/{old.pk}/"):
        assert "unsupported since 2021-02-28" in client.get(path).content.decode()
    page = client.get("/delegates/?outdated=1")
    assert [row.name for row in page.context["delegates"]] == ["old"]
    rows = prefetch_instances(Delegate.objects.filter(scope=project))
    now = datetime(2021, 2, 28, tzinfo=UTC)
    marked = {row.name for row in list_delegate_facts(rows, now) if row.unsupported_since}
    assert marked == {row.name for row in filter_outdated(rows, now)} == {"old"}
