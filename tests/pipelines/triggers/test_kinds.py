"""What every kind of trigger owes: words for people, a sample that it reads, and values that it declares."""

import json
import uuid
from datetime import UTC, datetime

import pytest

from pipelines.triggers.base import HookRequest, RequestRefused, TriggerKind
from pipelines.triggers.registry import list_kinds

KINDS = pytest.mark.parametrize("kind", list_kinds().values(), ids=list(list_kinds()))
SPECS = {
    "git": {"provider": "github", "branches": ["main"], "tags": [], "paths": []},
    "image": {"images": ["acme/*"], "tags": [], "poll": "never"},
    "pipeline": {"pipeline": "rolling", "result": "succeeded"},
    "schedule": {"cron": "0 2 * * *", "time_zone": "UTC"},
}


def spec_of(kind: TriggerKind) -> dict[str, object]:
    return SPECS.get(kind.identifier, {})


@KINDS
def test_a_kind_has_words_for_people(kind: TriggerKind) -> None:
    assert kind.title
    assert kind.description[:1].islower()
    assert kind.__doc__
    assert all(setting.label for setting in kind.settings)


@KINDS
def test_a_kind_accepts_good_settings_and_no_others(kind: TriggerKind) -> None:
    assert kind.list_problems(spec_of(kind)) == []
    assert [problem["path"] for problem in kind.list_problems({**spec_of(kind), "colour": "red"})] == [
        "spec.colour"
    ]


@KINDS
def test_a_kind_reads_its_own_sample_and_declares_its_values(kind: TriggerKind) -> None:
    payload = json.loads(kind.sample_payload)
    events = kind.read_events(spec_of(kind), payload, {})
    assert events
    for event in events:
        assert event.summary
        assert len(event.key) <= 255
        assert len(event.delivery_id) <= 128
        assert set(event.values) <= set(kind.values)
        assert all(check.text for check in kind.list_checks(spec_of(kind), event.values, payload))


@KINDS
def test_a_kind_with_an_address_refuses_who_knows_no_secret(kind: TriggerKind) -> None:
    request = HookRequest({}, b"{}", datetime.now(UTC))
    with pytest.raises(RequestRefused):
        kind.authenticate(spec_of(kind), str(uuid.uuid4()), request)
    steps = kind.list_setup_steps(spec_of(kind), "https://slipway.example/hooks/v1/x/")
    assert bool(steps) == kind.has_address
