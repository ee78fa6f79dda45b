"""Rules that want only some services, environments, pipelines or outcomes."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from notifications.events import EventType, NotificationEvent
from notifications.models import Notification, NotificationRule
from notifications.outbox import notify
from rbac.models import Scope, User
from tests.notifications.conftest import Ruled
from tests.notifications.webhook_receiver import Receiver

pytestmark = pytest.mark.django_db


def build_event(scope: Scope, **fields: Any) -> NotificationEvent:
    values = {"services": ("web",), "environments": ("prod",), "pipeline": "release", "status": "FAILED"}
    return NotificationEvent(EventType.EXECUTION_FAILED, scope, "It failed.", "/x/", **(values | fields))


@pytest.mark.parametrize(
    ("filters", "is_told"),
    [
        ({}, True),
        ({"services": ["web"]}, True),
        ({"services": ["api", "web"], "environments": ["prod"]}, True),
        ({"services": ["api"]}, False),
        ({"services": ["web"], "environments": ["dev"]}, False),
        ({"pipelines": ["release"], "outcomes": ["FAILED", "EXPIRED"]}, True),
        ({"pipelines": ["nightly"]}, False),
        ({"outcomes": ["SUCCESS"]}, False),
        ({"services": []}, True),
    ],
)
def test_a_rule_is_told_what_every_filter_matches(
    ruled: Ruled, project: Scope, filters: dict[str, list[str]], is_told: bool
) -> None:
    ruled(project, EventType.EXECUTION_FAILED, filters=filters)
    assert notify(build_event(project)) == is_told


def test_one_service_of_several_is_enough(ruled: Ruled, project: Scope) -> None:
    ruled(project, EventType.EXECUTION_FAILED, filters={"services": ["api"]})
    assert notify(build_event(project, services=("web", "api"))) == 1


def test_an_event_without_a_service_is_not_told_to_a_rule_for_one(ruled: Ruled, project: Scope) -> None:
    ruled(project, EventType.DELEGATE_CONNECTED, filters={"services": ["web"]})
    assert notify(NotificationEvent(EventType.DELEGATE_CONNECTED, project, "eu is back.", "/x/")) == 0
    assert not Notification.objects.exists()


def test_the_form_takes_names_and_outcomes_and_shows_them_again(
    project: Scope, receiver: Receiver, admin: User, browse: Callable[[User], Client]
) -> None:
    client = browse(admin)
    fields: dict[str, Any] = {"in_scope": project.path, "name": "Ops", "events": ["execution.failed"]}
    fields |= {"url": receiver.url(), "is_enabled": "on", "services": "web, api web", "outcomes": ["EXPIRED"]}
    page = client.post("/notifications/new/", fields, follow=True).content.decode()
    rule = NotificationRule.objects.get()
    assert rule.filters == {"services": ["web", "api"], "outcomes": ["EXPIRED"]}
    assert "only web, api" in page
    assert "only Expired" in page
    edit = client.get(reverse("edit-notification-rule", args=[rule.pk])).content.decode()
    assert 'value="web api"' in edit
    client.post(
        reverse("edit-notification-rule", args=[rule.pk]),
        fields | {"version": 1, "services": "", "outcomes": []},
    )
    rule.refresh_from_db()
    assert rule.filters == {}


@pytest.mark.parametrize(
    ("filters", "path"),
    [
        ({"outcomes": ["GREAT"]}, "filters.outcomes"),
        ({"services": ["x"] * 101}, "filters.services"),
        ({"services": ["a\u202eb"]}, "filters.services"),
        ({"colors": ["red"]}, "filters"),
    ],
)
def test_filters_that_match_nothing_are_refused_by_the_api(
    project: Scope,
    receiver: Receiver,
    admin: User,
    call: Callable[[User], APIClient],
    filters: dict[str, list[str]],
    path: str,
) -> None:
    body = {"identifier": "ops", "name": "Ops", "events": ["drift.found"], "url": receiver.url()}
    body |= {"org": "default", "project": "demo", "filters": filters}
    answer = call(admin).post("/api/v1/notification-rules", body, format="json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["path"].startswith(path)
    body["filters"] = {"services": ["web"]}
    answer = call(admin).post("/api/v1/notification-rules", body, format="json")
    assert answer.json()["filters"] == {"services": ["web"]}
