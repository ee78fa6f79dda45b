"""Search over everything: ranking, visibility in every scope, number of queries."""

from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalog.models import Environment, Service
from delegates.models import Delegate
from inventory.models.instances import EcsServiceRecord
from inventory.queries.search import MAX_HITS, rank_name, search
from pipelines.models import Pipeline
from rbac.models import Scope, User
from rbac.policy import cache_permissions
from tests.api.sample_project import CANARY, World

pytestmark = pytest.mark.django_db


def find(reader: User, text: str) -> list[tuple[str, str]]:
    """Return kind and name of each hit."""
    return [(hit.kind, hit.name) for hit in search(reader, text)]


def test_every_kind_is_found_by_name_with_its_scope_beside_it(world: World, admin: User) -> None:
    hits_by_kind = {hit.kind: hit for hit in search(admin, CANARY.lower())}
    assert {"Service", "Pipeline", "Environment", "ECS service"} <= set(hits_by_kind)
    assert {hit.scope_path for hit in hits_by_kind.values()} == {world.scope.path}
    assert hits_by_kind["Service"].url == reverse("service-dashboard", args=[world.service.pk])
    assert find(admin, world.delegate.name)[0] == ("Delegate", world.delegate.name)


@pytest.mark.parametrize("text", ["#1", "1", "rolling 1", "Canary4711 rolling #1"])
def test_an_execution_is_found_by_its_number(world: World, admin: User, text: str) -> None:
    (hit,) = [hit for hit in search(admin, text) if hit.kind == "Execution"]
    assert (hit.name, hit.scope_path) == (f"{CANARY} rolling #1", world.scope.path)
    assert hit.url == reverse("execution", args=[world.execution.pk])


@pytest.mark.parametrize("text", ["#2", "rolling", "other 1", "rolling1", "#1234567890", "# 1a"])
def test_other_numbers_and_names_find_no_execution(world: World, admin: User, text: str) -> None:
    assert "Execution" not in {kind for kind, _ in find(admin, text)}


def test_pages_and_tabs_are_found_once_and_administration_by_staff_only(world: World, admin: User) -> None:
    assert find(admin, "approv")[0] == ("Page", "Approvals")
    assert find(admin, "deployments").count(("Page", "Deployments")) == 1
    assert ("Page", "Administration") not in find(admin, "administration")
    staff_hits = search(admin, "administration", is_staff=True)
    assert [hit.url for hit in staff_hits if hit.kind == "Page"] == ["/admin/"]


def test_exact_names_come_first_then_beginnings_then_words_then_the_rest(world: World, admin: User) -> None:
    for number, name in enumerate(["Laundry", "big-laund", "xlaundx", "laund"]):
        Service.objects.create(scope=world.scope, identifier=f"s{number}", name=name)
    assert [name for _, name in find(admin, "LAUND")] == ["laund", "Laundry", "big-laund", "xlaundx"]


@pytest.mark.parametrize(
    ("name", "rank"), [("Web", 0), ("web-api", 1), ("my web", 2), ("cobwebs", 3), ("api", None)]
)
def test_pages_are_ranked_as_rows_are(name: str, rank: int | None) -> None:
    assert rank_name(name, "WEB") == rank


def test_many_services_do_not_hide_an_environment_of_the_same_beginning(world: World, admin: User) -> None:
    Service.objects.bulk_create(
        Service(scope=world.scope, identifier=f"prod_{number}", name=f"Prod {number:02}")
        for number in range(MAX_HITS * 2)
    )
    Environment.objects.create(scope=world.scope, identifier="prod_eu", name="Prod EU")
    hits = find(admin, "prod")
    assert len(hits) == MAX_HITS
    assert ("Environment", "Prod EU") in hits
    assert hits[0] == ("Service", "Prod 00")


@pytest.mark.parametrize("text", [CANARY, "#1", "1", "rolling 1", "myapp", "dev", "a", "%", "_", ""])
def test_nothing_that_the_reader_cannot_view_ever_appears(world: World, stranger: User, text: str) -> None:
    assert {kind for kind, _ in find(stranger, text)} <= {"Page", "Delegate"}
    assert all(hit.scope_path != world.scope.path for hit in search(stranger, text))


def test_hits_come_from_every_scope_that_the_reader_may_view(
    world: World, other_project: Scope, admin: User, viewer: User, stranger: User
) -> None:
    Service.objects.create(scope=other_project, identifier="laundry", name="Laundry")
    assert find(admin, "laundry") == find(stranger, "laundry") == [("Service", "Laundry")]
    assert find(viewer, "laundry") == []


def test_deleted_pipelines_and_gone_ecs_services_are_not_found(world: World, admin: User) -> None:
    Pipeline.objects.update(deleted_at=timezone.now())
    EcsServiceRecord.objects.update(gone_at=timezone.now())
    assert {"Pipeline", "ECS service"}.isdisjoint(kind for kind, _ in find(admin, CANARY))


def test_wildcards_of_the_database_are_plain_characters(world: World, admin: User) -> None:
    Service.objects.create(scope=world.scope, identifier="percent", name="100% sure")
    assert find(admin, "0% s") == [("Service", "100% sure")]
    assert find(admin, "1%sure") == []


def test_a_search_takes_at_most_ten_queries_however_much_there_is(
    world: World, admin: User, django_assert_max_num_queries: object
) -> None:
    for count in (3, 30):
        for number in range(count):
            name = f"rolling {number} 1"
            Service.objects.create(scope=world.scope, identifier=f"r{count}_{number}", name=name)
            Delegate.objects.create(scope=world.scope, name=f"rolling-{count}-{number}")
        with cache_permissions(), django_assert_max_num_queries(10):  # type: ignore[operator]
            assert search(admin, "rolling 1")


def test_the_results_page_works_without_scripts(world: World, reader: Client) -> None:
    content = unescape(reader.get(reverse("search"), {"q": "myapp"}).content.decode())
    assert f'href="{reverse("service-dashboard", args=[world.service.pk])}"' in content
    assert "Search everywhere" in reader.get(reverse("search")).content.decode()
    assert "No match" in reader.get(reverse("search"), {"q": "<nothing>"}).content.decode()


def test_the_hits_of_the_search_box_are_options(world: World, reader: Client) -> None:
    content = reader.get(reverse("search-hits"), {"q": "myapp"}).content.decode()
    assert content.count('role="option"') == content.count('<a class="hit"') >= 1
    assert reader.get(reverse("search-hits"), {"q": ""}).content.decode().strip() == ""


def test_an_ecs_service_leads_to_its_instances_in_its_scope(
    world: World, reader: Client, admin: User
) -> None:
    (hit,) = [hit for hit in search(admin, CANARY) if hit.kind == "ECS service"]
    content = reader.get(hit.url).content.decode()
    assert hit.name in content
