"""`manage.py acceptance` asks before it creates anything, and says what is missing."""

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from catalog.models import Environment
from deployments.engine import dispatch
from deployments.models import Pulse
from ops.acceptance.plans import estimate_cost
from ops.acceptance.resources import IDENTIFIER_PREFIX, create_disposable_project, create_run_key
from ops.acceptance.scenarios import SCENARIOS
from ops.acceptance.targets import AcceptanceTarget, find_connector, open_caller
from ops.demo.pipelines import SandboxFacts
from rbac.models import User
from sandbox.process import SandboxProcess
from tests.fixtures.demo import fill_in_demo

pytestmark = pytest.mark.django_db


@pytest.fixture
def options(sandbox: SandboxProcess, account: object) -> dict[str, Any]:
    """The options that fit the demo."""
    seed = sandbox.seed()
    fill_in_demo(SandboxFacts.from_wire(seed))
    return {
        "connector": "sandbox_aws",
        "cluster": "demo",
        "subnets": ",".join(seed["subnets"]),
        "security_groups": seed["security_group"],
    }


@pytest.fixture
def beating() -> None:
    Pulse.objects.update_or_create(name=dispatch.DISPATCHER, defaults={"at": timezone.now()})


def run_command(options: dict[str, Any], **changes: Any) -> str:
    output = io.StringIO()
    try:
        call_command("acceptance", stdout=output, **{**options, **changes})
    except CommandError as refusal:
        return f"{output.getvalue()}{refusal}"
    return output.getvalue()


@pytest.mark.usefixtures("beating", "live_broker")
def test_without_a_yes_it_shows_the_plan_and_changes_nothing(
    options: dict[str, Any], sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
    sandbox.fault("denied", service="ecs", operation="TagResource")
    mark = sandbox.last_number()

    text = run_command(options)

    assert "ECS services slipway-acceptance-" in text
    assert "Estimated cost: about 0.01 USD" in text
    assert "IAM DENIES ecs:TagResource" in text
    assert text.endswith("Start? Type yes: Nothing was changed.")
    assert [entry for entry in sandbox.journal(mark) if entry["effect"]] == []
    assert not Environment.objects.filter(identifier__startswith=IDENTIFIER_PREFIX).exists()


@pytest.mark.usefixtures("live_broker")
def test_without_workers_it_does_not_begin(options: dict[str, Any]) -> None:
    Pulse.objects.all().delete()
    assert run_command(options, yes=True).startswith(
        "Deployments need running workers. The dispatcher never ran"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"connector": "ghost"}, "There is no AWS connector ghost."),
        ({"subnets": ""}, "Name subnets and security groups."),
        ({"cluster": "ghost"}, "Cluster not found"),
        ({"image": "nginx"}, "Enter an image with its tag, such as nginx:stable."),
        ({"user": "ghost"}, "There is no active user ghost."),
        (
            {"load_balancer": "arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer/app/a/1"},
            "Blue/green needs a load balancer, a production listener and a stage listener.",
        ),
    ],
)
def test_it_says_which_option_is_wrong(options: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    assert words in run_command(options, **changes)


def test_a_clean_up_without_leftovers_says_so(options: dict[str, Any]) -> None:
    assert run_command(options, clean_up=True) == "Earlier runs left nothing here.\n"


def test_a_clean_up_deletes_what_an_earlier_run_left(options: dict[str, Any]) -> None:
    connector = find_connector(options["connector"])
    caller, region = open_caller(connector, "")
    target = AcceptanceTarget(connector, region, "demo", ("subnet-a",), ("sg-a",), caller=caller)
    run, admin = create_run_key(), User.objects.get(username="admin")
    create_disposable_project(actor=admin, run=run, target=target, scope=connector.scope)

    text = run_command(options, clean_up=True, yes=True)

    assert text == f"Runs left resources here: {run.aws_name}.\nDeleting {run.aws_name} …\n"
    assert not Environment.objects.filter(identifier=run.identifier).exists()


def test_all_scenarios_cost_a_few_cents() -> None:
    assert 0.005 < estimate_cost(list(SCENARIOS)) < 0.05
