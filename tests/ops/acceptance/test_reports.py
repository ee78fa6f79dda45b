"""The report shows differences side by side, and no id, ARN, address or account."""

import re
from datetime import UTC, datetime

from ops.acceptance.comparison import load_sandbox_observations
from ops.acceptance.observations import Normalizer, Observation, ObservedEvent
from ops.acceptance.plans import PermissionCheck
from ops.acceptance.reports import AcceptanceReport


def build_report(*observations: Observation, **private: str) -> AcceptanceReport:
    return AcceptanceReport(
        observations=observations,
        is_complete=True,
        left=(),
        version="1.2.3",
        region="eu-central-1",
        started_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        ended_at=datetime(2026, 1, 2, 3, 46, tzinfo=UTC),
        permissions=PermissionCheck(("ecs:CreateService",), denied=("ecs:TagResource",)),
        private=private,
    )


def test_texts_lose_everything_that_belongs_to_an_account() -> None:
    normalizer = Normalizer({"slipway-acceptance-0123abcd": "acceptance"})
    first, second = "0" * 32, "f" * 32
    group = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/target1/0123456789abcdef"
    texts = [
        f"(service slipway-acceptance-0123abcd) has started 2 tasks: (task {second}) (task {first}).",
        f"(service slipway-acceptance-0123abcd, taskSet ecs-svc/1234567890123456789) stopped (task {first}).",
        f"registered 1 targets in (target-group {group})",
        "denied to arn:aws:iam::123456789012:role/x from 10.1.2.3:443 at 2026-01-02T03:04:05Z",
        "account 123456789012, request 01234567-89ab-cdef-0123-456789abcdef, eni-0123456789abcdef0",
    ]
    assert [normalizer.normalize(text) for text in texts] == [
        "(service acceptance) has started 2 tasks: (task 1) (task 2).",
        "(service acceptance, taskSet deployment 1) stopped (task 2).",
        "registered 1 targets in (target group 1)",
        "denied to (ARN) from (address) at (time)",
        "account (account), request (id), (resource)",
    ]


def test_what_the_sandbox_does_too_stands_beside_it() -> None:
    text = build_report(*load_sandbox_observations().values()).to_markdown()
    assert "only here" not in text
    assert "only in the sandbox" not in text
    assert "21 held, 0 broken, 0 not observed." in text
    assert "Slipway 1.2.3, eu-central-1, 2026-01-02 03:04 UTC" in text
    assert "Denied by IAM's simulation: ecs:TagResource." in text


def test_each_difference_is_marked() -> None:
    observation = load_sandbox_observations()["first"]
    observation.events[1] = ObservedEvent(99.0, "(service acceptance) is deployed | done.")
    observation.tasks[0].stop_code = "UserInitiated"

    text = build_report(observation).to_markdown()

    assert "| 99 s |  | (service acceptance) is deployed \\| done. | only here |" in text
    completed = re.escape("(service acceptance) (deployment 1) deployment completed. | only in the sandbox |")
    assert re.search(rf"\|  \| \d+ s \| {completed}", text)
    assert "task 1 of deployment 1: UserInitiated | task 1 of deployment 1: not stopped" in text
    assert "`known_events`: Every service event has a known text. | **broken** |" in text


def test_a_report_of_a_run_can_be_read_again() -> None:
    observations = load_sandbox_observations()
    record = build_report(*observations.values()).to_json()
    assert [Observation.from_json(each) for each in record["observations"]] == list(observations.values())
    assert "private" not in record


def test_the_account_is_named_only_on_request() -> None:
    report = build_report(Account="123456789012")
    assert "- Account: 123456789012" in report.to_markdown()
    assert report.to_json()["private"] == {"Account": "123456789012"}
