"""Whatever AWS, or a delegate in its name, answers: one odd row never fails the sync of a cluster."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync import column_values
from inventory.sync.ecs_payloads import AwsPayload
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from tests.invalid_input.invalid_values import JSON_ONLY, TEXTS
from tests.inventory.sync.large_cluster import PREFIX, Crowd
from tests.inventory.sync.test_large_clusters import cluster, sync
from tests.lanes import examples
from web.clock import get_database_time

__all__ = ["cluster"]
pytestmark = pytest.mark.django_db
ODD: list[object] = [
    *TEXTS.values(),
    *JSON_ONLY.values(),
    "n" * 10_240,
    None,
    True,
    -1,
    2**80,
    1e300,
    [],
    {},
    [1],
    {"a": []},
]
KEYS = ("serviceArn", "taskArn", "serviceName", "clusterArn", "group")


class Odd(Crowd):
    """One good ECS service with one task, and beside them one of each where every value is odd."""

    odd: object = ""

    def _DescribeServices(self, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = super()._DescribeServices(params)
        told = {**answer["services"][0], "serviceName": "odd", "serviceArn": f"{PREFIX}:service/large/odd"}
        answer["services"] += [self._odd_one(told, keep) for keep in ((), KEYS, KEYS)] + [self.odd]
        return answer

    def _DescribeTasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = super()._DescribeTasks(params)
        good = answer["tasks"][0]
        good["attachments"] = [{"details": [{"name": "privateIPv4Address", "value": "10.0.0.7"}]}]
        told = {**good, "taskArn": f"{PREFIX}:task/large/odd"}
        answer["tasks"] += [self._odd_one(told, keep) for keep in ((), KEYS, KEYS)] + [self.odd]
        return answer

    def _odd_one(self, found: Mapping[str, Any], keep: tuple[str, ...]) -> dict[str, Any]:
        return {name: value if name in keep else self._odd_value(value) for name, value in found.items()}

    def _odd_value(self, value: object) -> object:
        if isinstance(value, list):
            return [self.odd, *(self._odd_one(one, ()) for one in value if isinstance(one, dict))]
        return self.odd


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_a_cluster_is_kept_in_step_whatever_one_row_says(cluster: SyncedCluster, odd: object) -> None:
    crowd = Odd(services=1, tasks_each=1)
    crowd.odd = odd
    sync(cluster, crowd)
    cluster.refresh_from_db()
    assert (cluster.failure, cluster.failures) == ("", 0)
    good = ServiceInstance.objects.get(task_id="s0t0")
    assert (good.image, good.address, good.ecs_service) == (
        "s0:7",
        "10.0.0.7",
        EcsServiceRecord.objects.get(name="s0"),
    )
    assert EcsServiceEvent.objects.filter(ecs_service=good.ecs_service).count() >= 3
    for row in (
        *ServiceInstance.objects.all(),
        *EcsServiceRecord.objects.all(),
        *EcsServiceEvent.objects.all(),
    ):
        assert_fits(row)


def assert_fits(row: models.Model) -> None:
    for column in row._meta.concrete_fields:
        value = column.value_from_object(row)
        if isinstance(value, str):
            assert len(value) <= (column.max_length or 4000), column.name
        told = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        told.encode()
        assert "\0" not in told.replace("\\u0000", "\0"), column.name


def test_a_list_that_cannot_be_followed_ends_nothing(cluster: SyncedCluster) -> None:
    sync(cluster, Crowd(1, 1))
    for token in ({"a": 1}, "a\0b", "t" * 10_000, "again"):

        class Endless(Crowd):
            def _ListTasks(self, params: Mapping[str, Any], token: object = token) -> dict[str, Any]:
                return {"taskArns": [], "nextToken": token}

        SyncedCluster.objects.update(due_at=get_database_time())
        run_scan(SyncScan, cluster.pk, lambda *_: Endless(1, 1))
        cluster.refresh_from_db()
        assert cluster.failure
        assert ServiceInstance.objects.filter(stopped_at=None).count() == 1


def test_names_that_are_too_long_stay_different_and_find_their_service(cluster: SyncedCluster) -> None:
    long = ["n" * 300 + end for end in "ab"]

    class Long(Crowd):
        def _DescribeServices(self, params: Mapping[str, Any]) -> dict[str, Any]:
            found = super()._DescribeServices(params)["services"]
            return {"services": [{**one, "serviceName": long[number]} for number, one in enumerate(found)]}

        def _DescribeTasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
            found = super()._DescribeTasks(params)["tasks"]
            return {"tasks": [{**one, "group": f"service:{long[n]}"} for n, one in enumerate(found)]}

    sync(cluster, Long(2, 1))
    assert EcsServiceRecord.objects.count() == 2
    assert {one.ecs_service.name for one in ServiceInstance.objects.all() if one.ecs_service} == set(
        EcsServiceRecord.objects.values_list("name", flat=True)
    )


def test_a_failure_is_told_however_aws_words_it(cluster: SyncedCluster) -> None:
    from aws.errors import AwsError

    class Refusing(Crowd):
        def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            raise AwsError("Odd\0Code" * 100, "m\0\ud800" * 10_000, service, operation)

    run_scan(SyncScan, cluster.pk, lambda *_: Refusing(1, 1))
    cluster.refresh_from_db()
    assert cluster.failures == 1
    assert "ListServices" in cluster.failure
    assert_fits(cluster)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=JSON)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(300))
def test_any_value_becomes_one_that_a_column_holds(value: object) -> None:
    held = json.dumps(column_values.clean_document(value), allow_nan=False, ensure_ascii=False)
    held.encode()
    assert "\\u0000" not in held
    told = AwsPayload({"x": value})
    assert len(told.text("x", 64)) <= 64
    told.text("x").encode()
    assert told.number("x") is None or abs(told.number("x") or 0) < 2**31
    told.moment("x")
    told.rows("x")
    column_values.parse_ip_address(value)
