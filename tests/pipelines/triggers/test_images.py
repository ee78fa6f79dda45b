"""Pushed images: what registries send, who is let in, and that a run deploys what was pushed."""

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from catalog.models import Artifact
from deployments.engine.steps.inputs import build_artifact_values
from deployments.models import Execution
from pipelines import tasks
from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers.kinds.image import ImagePush
from pipelines.triggers.trials import try_payload
from policies.operations import PolicyRuleSpec, create_rule
from rbac.models import User
from tests.api.sample_project import World
from web.http.problems import BadInput

DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
SPEC = {"images": ["acme/*"], "tags": ["v*"]}


def notification(tag: str = "v2", digest: str = DIGEST, event_id: str = "1", **more: Any) -> dict[str, Any]:
    target = {"mediaType": "x", "repository": "acme/myapp", "tag": tag, "digest": digest}
    return {"events": [{"id": event_id, "action": "push", "target": target} | more]}


def ecr(**detail: Any) -> dict[str, Any]:
    image = {"repository-name": "acme/myapp", "image-tag": "v2", "image-digest": DIGEST}
    done = {"action-type": "PUSH", "result": "SUCCESS"}
    return {
        "id": "e1",
        "source": "aws.ecr",
        "detail-type": "ECR Image Action",
        "detail": image | done | detail,
    }


def docker_hub(pushed_at: Any = 1_790_000_000) -> dict[str, Any]:
    push = {"tag": "v2", "pushed_at": pushed_at, "pusher": "jane"}
    return {"callback_url": "https://hub", "push_data": push, "repository": {"repo_name": "acme/myapp"}}


@pytest.mark.parametrize(
    ("payload", "digest"), [(notification(), DIGEST), (ecr(), DIGEST), (docker_hub(), "")]
)
def test_every_registry_gives_the_same_values(payload: Any, digest: str) -> None:
    [event] = ImagePush().read_events(SPEC, payload, {})
    assert event.values == {"repository": "acme/myapp", "tag": "v2", "digest": digest}
    assert [check.holds for check in ImagePush().list_checks(SPEC, event.values, payload)] == [True, True]


@pytest.mark.parametrize(
    "payload",
    [
        notification(action="pull"),
        notification(tag=""),
        {"events": [None, 1, {"action": "push"}]},
        ecr(**{"action-type": "DELETE"}),
        ecr(result="FAILURE"),
        ecr(**{"image-tag": None}),
    ],
)
def test_pulls_layers_and_deletions_are_no_events(payload: Any) -> None:
    assert ImagePush().read_events(SPEC, payload, {}) == []


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"source": "aws.ecr"},
        notification(tag="v2; rm -rf /"),
        notification(digest="sha256:short"),
        notification(target={"tag": "v2", "repository": "../etc", "digest": DIGEST}),
        docker_hub(pushed_at=None),
        docker_hub(pushed_at=10**30),
    ],
)
def test_a_body_of_another_form_is_refused(payload: Any) -> None:
    with pytest.raises(BadInput):
        ImagePush().read_events(SPEC, payload, {})


def test_images_and_tags_are_patterns() -> None:
    payload = notification(tag="nightly")
    [event] = ImagePush().read_events(SPEC, payload, {})
    checks = ImagePush().list_checks({"images": ["other"], "tags": ["v*"]}, event.values, payload)
    assert [check.reason for check in checks] == ["It is acme/myapp.", "It is nightly."]


pytestmark = pytest.mark.django_db


@pytest.fixture
def pushed(world: World) -> Trigger:
    """A trigger of images that deploys the pushed tag."""
    TriggerFiring.objects.all().delete()
    world.trigger.kind, world.trigger.spec, world.trigger.tag = "image", SPEC, "<+trigger.tag>"
    world.trigger.save()
    Artifact.objects.update(image="registry.example/acme/myapp")
    return world.trigger


def send(trigger: Trigger, payload: Any, *, query: str = "", **headers: str) -> HttpResponse:
    """Send a payload as a registry does, and have a worker handle it."""
    address = reverse("trigger-hook", args=[trigger.key]) + query
    response = Client().post(address, json.dumps(payload), "application/json", headers=headers)
    tasks.process_firings()
    return response


def test_a_registry_proves_itself_by_a_header_or_the_address(pushed: Trigger) -> None:
    ways: list[dict[str, Any]] = [
        {"headers": {"Authorization": f"Bearer {pushed.secret}"}},
        {"headers": {"X-Slipway-Token": pushed.secret}},
        {"query": f"?token={pushed.secret}"},
    ]
    for number, way in enumerate(ways):
        payload = notification(event_id=str(number), digest=f"sha256:{number:064}")
        assert send(pushed, payload, query=way.get("query", ""), **way.get("headers", {})).status_code == 202
    for wrong in ({}, {"Authorization": "Bearer "}, {"X-Slipway-Token": "no"}):
        assert send(pushed, notification(event_id="9"), **wrong).status_code == 401
    assert TriggerFiring.objects.count() == 3


def test_the_run_deploys_the_digest_that_was_pushed(pushed: Trigger) -> None:
    send(pushed, notification(), Authorization=f"Bearer {pushed.secret}")
    execution = Execution.objects.exclude(cause="").get()
    assert execution.cause == f"{pushed.name}: image acme/myapp:v2 (aaaaaaaaaaaa)"
    values = build_artifact_values(execution)
    assert values["imageWithDigest"] == f"registry.example/acme/myapp@{DIGEST}"
    assert values["tag"] == "v2"


def test_a_digest_of_another_image_pins_nothing(pushed: Trigger) -> None:
    Artifact.objects.update(image="registry.example/acme/other-myapp")
    send(pushed, notification(), Authorization=f"Bearer {pushed.secret}")
    assert "digest" not in Execution.objects.exclude(cause="").get().artifact


def test_the_same_digest_and_tag_start_one_run_and_another_digest_a_second(pushed: Trigger) -> None:
    answers = [
        send(pushed, payload, Authorization=f"Bearer {pushed.secret}").json()["duplicates"]
        for payload in (
            notification(event_id="1"),
            notification(event_id="2"),
            notification(event_id="3", digest=OTHER),
            ecr(),
        )
    ]
    assert answers == [0, 1, 0, 1]
    assert Execution.objects.exclude(cause="").count() == 2


def test_one_request_with_several_tags_starts_a_run_for_each(pushed: Trigger) -> None:
    payload = {"events": [*notification()["events"], *notification("v3", OTHER, "2")["events"]]}
    response = send(pushed, payload, Authorization=f"Bearer {pushed.secret}")
    assert len(response.json()["firings"]) == 2
    tags = Execution.objects.exclude(cause="").values_list("tag", flat=True)
    assert sorted(tags) == ["v2", "v3"]


def test_a_trial_evaluates_policy_rules_on_cause_and_digest_as_a_run_does(
    pushed: Trigger, admin: User
) -> None:
    Artifact.objects.update(image="registry.example/acme/myapp")
    spec = PolicyRuleSpec(
        "Digests", "Run", "artifact.digest != '' && cause != ''", "Push the image again.", "REFUSE"
    )
    create_rule(actor=admin, scope=pushed.scope, identifier="digests", spec=spec)
    [with_digest] = try_payload(pushed, notification())
    assert (with_digest.refusal, with_digest.starts_run) == ("", True)
    [without_digest] = try_payload(pushed, docker_hub())
    assert without_digest.refusal.startswith("A policy rule refuses this run. (Policy rule Digests (")
    assert without_digest.refusal.endswith("/digests): Push the image again.)")
