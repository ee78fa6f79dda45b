"""Tags as rows: every writer of tags stores them, and a filter by them equals the rule for one delegate."""

from collections.abc import Iterable
from datetime import datetime
from importlib import import_module
from random import Random

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from delegates.models import Delegate, DelegateInstance, DelegateTag
from delegates.operations.delegates import update_delegate
from delegates.queries.routing_candidates import build_own_tag, list_effective_tags
from delegates.queries.shortlists import RoutingField
from delegates.queries.tag_filters import TagFilter
from delegates.tag_rows import repair_tags
from delegates.tasks import tick
from rbac.models import Scope, User
from tests.delegates.routing.random_fleets import SELECTORS, create_fleet
from tests.fixtures.delegates import make_delegate, make_instance, make_task

pytestmark = pytest.mark.django_db


def list_stored() -> set[tuple[str, str, str]]:
    """Return the delegate, the key of the instance and the tag of each row, but not of the built-in one."""
    rows = DelegateTag.objects.filter(delegate__is_built_in=False)
    return {
        (name, key or "", tag)
        for name, key, tag in rows.values_list("delegate__name", "instance__key", "tag")
    }


def list_by_rule(delegates: Iterable[Delegate], selectors: Iterable[str], now: datetime) -> set[str]:
    """Return the names of the delegates that have all tags, each judged by itself."""
    return {
        delegate.name
        for delegate in delegates
        if list_effective_tags(delegate, delegate.instances.all(), now)
        >= {selector.casefold() for selector in selectors}
    }


@pytest.mark.parametrize("common", [1, 200])
def test_a_filter_by_tags_equals_the_rule_for_each_delegate(project: Scope, common: int) -> None:
    random, now = Random(common), timezone.now()
    create_fleet(random, [project], 25, now)
    delegates = Delegate.objects.prefetch_related("instances")
    own = [build_own_tag(delegate.pk) for delegate in Delegate.objects.filter(name__in=("d7", "d8"))]
    tags = TagFilter([project.pk, Scope.objects.account().pk], now, common=common)
    for selectors in (*SELECTORS, [own[0].upper()], [own[0], "d7"], own, ["built-in"]):
        narrowed = set(tags.narrow(Delegate.objects.all(), selectors).values_list("name", flat=True))
        assert narrowed == list_by_rule(delegates, selectors, now), selectors


def test_tags_are_found_wherever_they_were_written(project: Scope, admin: User) -> None:
    delegate = make_delegate(project, "EU-1", tags=["Prod", "prod", "Straße"])
    instance = make_instance(delegate, "a/1", tags=["Two Words"])
    stored = {("EU-1", "", "eu-1"), ("EU-1", "", "prod"), ("EU-1", "", "strasse")}
    assert list_stored() == stored | {("EU-1", "a/1", "two words")}

    update_delegate(actor=admin, delegate=delegate, tags=["gpu"])
    instance.tags = ["gpu"]
    instance.save(update_fields=["tags"])
    assert list_stored() == {("EU-1", "", "eu-1"), ("EU-1", "", "gpu"), ("EU-1", "a/1", "gpu")}

    instance.delete()
    delegate.delete()
    assert list_stored() == set()


def test_a_heartbeat_leaves_the_rows_of_tags_alone(project: Scope) -> None:
    instance = make_instance(make_delegate(project), tags=["gpu"])
    with CaptureQueriesContext(connection) as context:
        instance.save(update_fields=["last_heartbeat_at"])
        DelegateInstance.objects.only("hostname").get(pk=instance.pk).save()
    assert not [query for query in context if "delegates_delegatetag" in query["sql"]]


def test_the_migration_stores_what_saving_stores(project: Scope) -> None:
    create_fleet(Random(5), [project], 20, timezone.now())
    stored = list_stored()
    DelegateTag.objects.filter(tag__in=("eu", "two words")).delete()
    assert list_stored() < stored
    import_module("delegates.migrations.0017_fill_delegate_tags").fill_tags(apps, None)
    assert list_stored() == stored


def test_rows_that_an_older_release_did_not_write_are_added_within_a_minute(project: Scope) -> None:
    instance = make_instance(make_delegate(project, "eu", tags=["gpu"]), tags=["linux"])
    stored = list_stored()
    DelegateTag.objects.all().delete()
    DelegateTag.objects.create(scope=project, delegate=instance.delegate, instance=instance, tag="gone")
    tick()
    assert list_stored() == stored
    assert repair_tags(timezone.now()) == 0


def test_the_database_refuses_a_second_row_of_a_tag(project: Scope) -> None:
    instance = make_instance(make_delegate(project, tags=["gpu"]), tags=["gpu"])
    for row in DelegateTag.objects.filter(tag="gpu", delegate=instance.delegate):
        row.pk = None
        with pytest.raises(IntegrityError), transaction.atomic():
            row.save(force_insert=True)


def test_an_agent_cannot_claim_the_tag_of_another_delegate(project: Scope) -> None:
    delegate = make_delegate(project, "target")
    make_instance(delegate)
    claimed = build_own_tag(delegate.pk)
    intruder = make_delegate(project, "Delegate 0", tags=[claimed.upper()])
    make_instance(intruder, "b/1", tags=[claimed])
    task, now = make_task(project, selectors=[claimed]), timezone.now()
    assert RoutingField([task], now).decide(task).chosen.name == "target"  # type: ignore[union-attr]
    Delegate.objects.filter(pk=delegate.pk).update(admission="DISABLED")
    assert RoutingField([task], now).decide(task).chosen is None
    assert claimed not in list_effective_tags(intruder, intruder.instances.all(), now)
