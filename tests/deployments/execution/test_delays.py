"""An open execution says on its page why it waits."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from django.conf import settings
from django.test import Client
from django.utils import timezone

from aws.errors import Throttled
from deployments.engine.service_waits import get_rate_limit_key
from deployments.execution.delays import list_execution_delays
from deployments.journal.rate_limits import (
    SERVICE_READS,
    RateLimited,
    record_throttling,
    take_token,
    take_tokens,
)
from deployments.models import Execution, StageExecution
from tests.fixtures.engine_driver import Drive
from tests.ops.test_background import push_message
from tests.ops.test_health import beat_once
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def execution(drive: Drive, live_broker: str) -> Execution:
    beat_once()
    return drive.start("1.27")


def open_page(execution: Execution, path: str = "") -> str:
    client = Client()
    client.force_login(execution.started_by)
    response = client.get(f"/deployments/{execution.pk}/{path}")
    assert response.status_code == 200
    return response.content.decode()


def list_texts(execution: Execution) -> list[str]:
    return [delay.text for delay in list_execution_delays(execution, get_database_time())]


def test_an_execution_without_a_delay_shows_none_and_asks_again(execution: Execution) -> None:
    assert list_texts(execution) == []
    page = open_page(execution)
    assert f'data-delays="/deployments/{execution.pk}/delays/"' in page
    assert "has answered" not in page


def test_without_a_worker_the_page_says_for_how_long(execution: Execution, live_broker: str) -> None:
    beat_once(seconds_ago=40)
    with redis.Redis.from_url(live_broker) as client:
        client.delete(settings.CELERY_TASK_DEFAULT_QUEUE)
    push_message(live_broker, seconds_ago=38)
    for path in ("", "delays/"):
        page = open_page(execution, path)
        assert "No worker has answered for 4" in page
        assert "The workers are behind: 1 message waits in queue slipway, the oldest for " in page
    client = Client()
    client.force_login(execution.started_by)
    document = client.get(f"/api/v1/executions/{execution.pk}/delays").json()
    assert [delay["code"] for delay in document["delays"]] == ["WORKER_SILENT", "QUEUE_BACKLOG"]
    assert document["delays"][0]["text"] in page


def test_a_call_without_a_token_waits_for_a_rate_limit(execution: Execution) -> None:
    stage = StageExecution.objects.select_related("connector").get(execution=execution)
    key, now = get_rate_limit_key(stage), timezone.now()
    take_tokens(key, SERVICE_READS, 1000, now)
    for holder in (*range(60), execution.pk):
        with pytest.raises(RateLimited):
            take_token(key, "ecs", "DescribeServices", holder=str(holder), now=now)

    (text,) = list_texts(execution)
    assert text.startswith("Waits for an AWS rate limit: service reads, until ")


def test_throttled_calls_of_a_load_balancer_are_named_without_a_quota(execution: Execution) -> None:
    stage = StageExecution.objects.select_related("connector").get(execution=execution)
    error = Throttled("Throttling", "Rate exceeded", "elbv2", "ModifyListener")
    record_throttling(get_rate_limit_key(stage), error, timezone.now() + timedelta(seconds=5))

    (text,) = list_texts(execution)
    assert text.startswith("AWS throttled calls of this account and region: elbv2 calls pause until ")
    assert "quota" not in text


def test_an_ended_execution_waits_for_nothing_and_is_not_asked_again(
    execution: Execution, django_assert_num_queries: Callable[[int], object]
) -> None:
    beat_once(seconds_ago=40)
    Execution.objects.filter(pk=execution.pk).update(status="ABORTED", due_at=None)
    execution.refresh_from_db()
    now = timezone.now() + timedelta(seconds=1)
    with django_assert_num_queries(0):  # type: ignore[attr-defined]
        assert list_execution_delays(execution, now) == []
    assert "data-delays" not in open_page(execution, "delays/")


def test_reasons_take_two_queries(
    execution: Execution, django_assert_num_queries: Callable[[int], object]
) -> None:
    now = timezone.now()
    with django_assert_num_queries(2):  # type: ignore[attr-defined]
        list_execution_delays(execution, now)
