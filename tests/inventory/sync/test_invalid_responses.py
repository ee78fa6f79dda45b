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
from tests.inventory.sync.large_cluster import PREFIX, LargeCluster
from tests.inventory.sync.test_large_clusters import cluster, sync
from tests.lanes import examples
from web.clock import get_database_time

__all__ = ["cluster"]
pytestmark = pytest.mark.django_db
INVALID_VALUES: list[object] = [
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


class InvalidRows(LargeCluster):
    """One good ECS service with one task, and beside them one of each where every value is odd."""

    odd: object = ""

    def _DescribeServices(self, params: Mapping[str, Any]) -> dict[str, Any]:
        response = super()._DescribeServices(params)
        service = {
            **response["services"][0],
            "serviceName": "odd",
            "serviceArn": f"{PREFIX}:service/large/odd",
        }
        response["services"] += [
            self._build_invalid_row(service, kept_keys) for kept_keys in ((), KEYS, KEYS)
        ] + [self.odd]
        return response

    def _DescribeTasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
        response = super()._DescribeTasks(params)
        valid_task = response["tasks"][0]
        valid_task["attachments"] = [{"details": [{"name": "privateIPv4Address", "value": "10.0.0.7"}]}]
        task = {**valid_task, "taskArn": f"{PREFIX}:task/large/odd"}
        response["tasks"] += [self._build_invalid_row(task, kept_keys) for kept_keys in ((), KEYS, KEYS)] + [
            self.odd
        ]
        return response

    def _build_invalid_row(self, row: Mapping[str, Any], kept_keys: tuple[str, ...]) -> dict[str, Any]:
        return {
            name: value if name in kept_keys else self._build_invalid_value(value)
            for name, value in row.items()
        }

    def _build_invalid_value(self, value: object) -> object:
        if isinstance(value, list):
            return [
                self.odd,
                *(self._build_invalid_row(entry, ()) for entry in value if isinstance(entry, dict)),
            ]
        return self.odd


@pytest.mark.parametrize("odd_value", INVALID_VALUES, ids=lambda odd_value: repr(odd_value)[:20])
def test_a_cluster_is_kept_in_step_whatever_one_row_says(cluster: SyncedCluster, odd_value: object) -> None:
    odd_cluster = InvalidRows(services=1, tasks_each=1)
    odd_cluster.odd = odd_value
    sync(cluster, odd_cluster)
    cluster.refresh_from_db()
    assert (cluster.failure, cluster.failures) == ("", 0)
    instance = ServiceInstance.objects.get(task_id="s0t0")
    assert (instance.image, instance.address, instance.ecs_service) == (
        "s0:7",
        "10.0.0.7",
        EcsServiceRecord.objects.get(name="s0"),
    )
    assert EcsServiceEvent.objects.filter(ecs_service=instance.ecs_service).count() >= 3
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
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        text.encode()
        assert "\0" not in text.replace("\\u0000", "\0"), column.name


def test_a_list_that_cannot_be_followed_ends_nothing(cluster: SyncedCluster) -> None:
    sync(cluster, LargeCluster(1, 1))
    for token in ({"a": 1}, "a\0b", "t" * 10_000, "again"):

        class Endless(LargeCluster):
            def _ListTasks(self, params: Mapping[str, Any], token: object = token) -> dict[str, Any]:
                return {"taskArns": [], "nextToken": token}

        SyncedCluster.objects.update(due_at=get_database_time())
        run_scan(SyncScan, cluster.pk, lambda *_: Endless(1, 1))
        cluster.refresh_from_db()
        assert cluster.failure
        assert ServiceInstance.objects.filter(stopped_at=None).count() == 1


@pytest.mark.parametrize("operation", ["ListServices", "ListTasks"])
def test_a_response_without_its_list_ends_nothing(cluster: SyncedCluster, operation: str) -> None:
    sync(cluster, LargeCluster(1, 1))

    class WithoutList(LargeCluster):
        def call(self, service: str, called: str, params: Mapping[str, Any]) -> dict[str, Any]:
            return {} if called == operation else super().call(service, called, params)

    SyncedCluster.objects.update(due_at=get_database_time())
    run_scan(SyncScan, cluster.pk, lambda *_: WithoutList(1, 1))
    cluster.refresh_from_db()
    assert cluster.failure.startswith(f"The response of {operation} has no ")
    assert EcsServiceRecord.objects.filter(gone_at=None).count() == 1
    assert ServiceInstance.objects.filter(stopped_at=None).count() == 1


def test_names_that_are_too_long_stay_different_and_find_their_service(cluster: SyncedCluster) -> None:
    long_names = ["n" * 300 + end for end in "ab"]

    class Long(LargeCluster):
        def _DescribeServices(self, params: Mapping[str, Any]) -> dict[str, Any]:
            services = super()._DescribeServices(params)["services"]
            return {
                "services": [
                    {**service, "serviceName": long_names[number]} for number, service in enumerate(services)
                ]
            }

        def _DescribeTasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
            tasks = super()._DescribeTasks(params)["tasks"]
            return {"tasks": [{**task, "group": f"service:{long_names[n]}"} for n, task in enumerate(tasks)]}

    sync(cluster, Long(2, 1))
    assert EcsServiceRecord.objects.count() == 2
    assert {
        instance.ecs_service.name for instance in ServiceInstance.objects.all() if instance.ecs_service
    } == set(EcsServiceRecord.objects.values_list("name", flat=True))


def test_a_failure_is_told_however_aws_words_it(cluster: SyncedCluster) -> None:
    from aws.errors import AwsError

    class Refusing(LargeCluster):
        def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            raise AwsError("Odd\0Code" * 100, "m\0\ud800" * 10_000, service, operation)

    run_scan(SyncScan, cluster.pk, lambda *_: Refusing(1, 1))
    cluster.refresh_from_db()
    assert cluster.failures == 1
    assert "ListServices" in cluster.failure
    assert_fits(cluster)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(value=JSON)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(300))
def test_any_value_becomes_one_that_a_column_holds(value: object) -> None:
    document = json.dumps(column_values.clean_document(value), allow_nan=False, ensure_ascii=False)
    document.encode()
    # A backslash and "u0000" in a text is no NUL: JSON writes it with two backslashes.
    assert "\\u0000" not in document.replace("\\\\", "")
    payload = AwsPayload({"x": value})
    assert len(payload.text("x", 64)) <= 64
    payload.text("x").encode()
    assert payload.number("x") is None or abs(payload.number("x") or 0) < 2**31
    payload.moment("x")
    payload.rows("x")
    column_values.parse_ip_address(value)
