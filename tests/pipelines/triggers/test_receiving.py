"""Requests to the address of a trigger: who is let in, what is written, and what an answer gives away."""

import json
import os
import subprocess
import time
import uuid

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from guards.limits import TRIGGER_BODY_BYTES, TRIGGER_REFUSALS_PER_ADDRESS, TRIGGER_REQUESTS_PER_MINUTE
from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers.base import HookRequest
from pipelines.triggers.kinds.webhook import Webhook
from pipelines.triggers.receiving import count_refusals
from tests.pipelines.triggers.conftest import Send, sign
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_firings(trigger: Trigger) -> None:
    TriggerFiring.objects.all().delete()


def test_a_signed_request_is_written_before_it_is_answered(trigger: Trigger, send: Send) -> None:
    response = send({"tag": "v2"}, Slipway_Delivery="build-7")
    assert response.status_code == 202
    firing = TriggerFiring.objects.get()
    assert response.json() == {"firings": [str(firing.pk)], "duplicates": 0}
    assert (firing.trigger, firing.delivery_id, firing.payload) == (trigger, "build-7", {"tag": "v2"})
    assert firing.status == "WAITING"


def test_a_form_is_refused_like_any_other_body_that_is_not_signed(trigger: Trigger) -> None:
    address = reverse("trigger-hook", args=[trigger.key])
    for content_type in ("multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
        assert Client().post(address, b"a=b", content_type=content_type).status_code == 401


def test_no_cookie_is_read_or_set(send: Send) -> None:
    response = send()
    assert not response.cookies
    assert response["Content-Type"] == "application/json"
    assert response["Cache-Control"] == "no-store"


def test_one_who_does_not_know_the_secret_learns_nothing_and_leaves_a_count(
    trigger: Trigger, send: Send
) -> None:
    answers = [
        send(secret="wrong").json(),
        send(at=time.time() - 301).json(),
        send(at=time.time() + 330).json(),
        send(Slipway_Signature="v1=\u00fc").json(),
        send(Slipway_Timestamp="1e3").json(),
        send(Slipway_Timestamp="9" * 400).json(),
    ]
    assert {answer["status"] for answer in answers} == {401}
    assert {answer["detail"] for answer in answers} == {"The request was refused."}
    assert not TriggerFiring.objects.exists()
    assert count_refusals(trigger) == 6


def test_an_address_that_does_not_exist_is_not_found(trigger: Trigger) -> None:
    response = Client().post(reverse("trigger-hook", args=[uuid.uuid4()]), b"{}", "application/json")
    assert response.status_code == 404
    trigger.pipeline.deleted_at = timezone.now()
    trigger.pipeline.save(update_fields=["deleted_at"])
    response = Client().post(reverse("trigger-hook", args=[trigger.key]), b"{}", "application/json")
    assert response.status_code == 404


def test_a_request_that_was_recorded_starts_nothing_again(trigger: Trigger) -> None:
    body, now = b'{"tag": "v2"}', time.time()
    headers = sign(trigger.secret, body, now)
    address = reverse("trigger-hook", args=[trigger.key])
    seen = []
    # The delivery id is not signed, and the scheme before the signature may be left out.
    plain = headers | {"Slipway-Signature": headers["Slipway-Signature"].removeprefix("v1=")}
    for altered in (headers, headers | {"Slipway-Delivery": "other"}, plain):
        response = Client().post(address, body, "application/json", headers=altered)
        seen.append((response.status_code, response.json()["duplicates"]))
    assert seen == [(202, 0), (202, 1), (202, 1)]
    assert TriggerFiring.objects.count() == 1
    with time_machine.travel(now + 301, tick=False):
        assert Client().post(address, body, "application/json", headers=headers).status_code == 401


def test_a_sender_that_tries_again_within_a_week_starts_one_run(trigger: Trigger, send: Send) -> None:
    first = send(Slipway_Delivery="build-7").json()
    with time_machine.travel(time.time() + 6 * 86_400):
        again = send(at=time.time(), Slipway_Delivery="build-7").json()
    assert again == first | {"duplicates": 1}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[1]", 400),
        (b"tag=v2", 400),
        (b'{"tag": "v2"', 400),
        (b'{"a": 1, "a": 2}', 400),
        (b'{"tag": "\\u0000"}', 400),
        (b'{"tag": "\\ud800"}', 400),
        (b'{"tag": NaN}', 400),
        (b'{"tag": 1e999}', 400),
        (b'{"tag": "\xff"}', 400),
        (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, 400),
        (b'{"a": [' + b"1," * 50_000 + b"1]}", 400),
        (b'{"a": "' + b"x" * int(TRIGGER_BODY_BYTES) + b'"}', 413),
    ],
)
def test_a_hostile_body_is_refused_with_its_problem(send: Send, body: bytes, status: int) -> None:
    response = send(body=body)
    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"
    assert not TriggerFiring.objects.exists()


def test_secrets_in_a_payload_are_not_stored(trigger: Trigger, send: Send) -> None:
    value = planted("token-of-somebody")
    send({"tag": "v2", "auth": {"access_token": value, "passwords": [value]}, "note": f"is {trigger.secret}"})
    stored = json.dumps(TriggerFiring.objects.get().payload)
    assert trigger.secret not in stored
    assert '"access_token": "\\u2022\\u2022\\u2022"' in stored


def test_a_flood_of_wrong_requests_is_turned_away_before_any_work(trigger: Trigger, send: Send) -> None:
    for _ in range(TRIGGER_REFUSALS_PER_ADDRESS + 1):
        send(secret="wrong")
    assert send(secret="wrong").status_code == 429
    assert send().status_code == 429


def test_a_flood_of_genuine_requests_is_limited(send: Send) -> None:
    statuses = [send({"n": number}).status_code for number in range(TRIGGER_REQUESTS_PER_MINUTE + 1)]
    assert statuses == [202] * TRIGGER_REQUESTS_PER_MINUTE + [429]


def test_only_post_is_answered(trigger: Trigger) -> None:
    assert Client().get(reverse("trigger-hook", args=[trigger.key])).status_code == 405


def test_the_command_on_the_page_makes_a_request_that_is_let_in(trigger: Trigger) -> None:
    [step] = Webhook().list_setup_steps({}, "https://slipway.example/hooks/v1/x/")
    # In place of curl, a function that prints what it would send.
    script = 'curl() { printf "%s\\n" "$@"; }\n' + step.command
    environment = {"PATH": os.environ["PATH"], "SECRET": trigger.secret}
    printed = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    headers = dict(line.split(": ", 1) for line in printed if line.startswith("Slipway-"))
    request = HookRequest(headers, printed[-1].encode(), timezone.now())
    Webhook().authenticate({}, trigger.secret, request)
