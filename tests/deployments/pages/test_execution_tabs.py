"""The execution page before its script runs: the tab of the address, with its first rows."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from deployments.log import store_lines
from deployments.models import ActionRun, AwsCall, Execution
from rbac.models import Scope, User
from steps.states import CallState
from tests.api.sample_project import make_world
from tests.deployments.log.conftest import build_lines

pytestmark = pytest.mark.django_db


@pytest.fixture
def execution(project: Scope, admin: User) -> Execution:
    return make_world(project, admin, admin).execution


def load_page(execution: Execution, reader: User, query: str = "") -> str:
    client = Client()
    client.force_login(reader)
    return client.get(reverse("execution", args=[execution.pk]) + query).content.decode()


def list_open_panels(page: str) -> list[str]:
    tags = re.findall(r'<div [^>]*role="tabpanel"[^>]*>', page)
    assert len(tags) == 4
    return [re.findall(r'id="panel-(\w+)"', tag)[0] for tag in tags if not tag.endswith(" hidden>")]


@pytest.mark.parametrize(
    ("query", "tab"),
    [
        ("", "log"),
        ("?tab=log", "log"),
        ("?tab=outputs", "outputs"),
        ("?tab=calls", "calls"),
        ("?tab=checklist", "checklist"),
        ("?tab=%3Cscript%3E", "log"),
    ],
)
def test_the_address_chooses_the_one_open_tab(execution: Execution, admin: User, query: str, tab: str):
    page = load_page(execution, admin, query)
    assert list_open_panels(page) == [tab]
    assert re.findall(r'data-tab="(\w+)"[^>]*aria-selected="true"', page) == [tab]


def test_the_log_tab_has_the_lines_of_a_short_log(execution: Execution, admin: User):
    store_lines(execution.pk, build_lines("\x1b[31mred\x1b[0m <b>&", "evil\u202etxt", level="error"))
    execution.refresh_from_db()
    page = load_page(execution, admin)
    line_rows = re.findall(r'<div class="log-row (\w+)" id="L(\d+)">.*?<span class="x">(.*?)</span>', page)
    last_number = execution.next_line_number - 1
    assert line_rows[-2:] == [
        ("error", str(last_number - 1), "red &lt;b&gt;&amp;"),
        ("error", str(last_number), "evil\u27e8U+202E\u27e9txt"),
    ]
    assert "Show the whole log" not in page


def test_the_log_tab_has_the_last_lines_of_a_long_log_and_a_link_to_the_whole(
    execution: Execution, admin: User
):
    store_lines(execution.pk, build_lines(*(f"line {number}" for number in range(1_500))))
    execution.refresh_from_db()
    last_number = execution.next_line_number - 1
    page = load_page(execution, admin)
    numbers = [int(number) for number in re.findall(r' id="L(\d+)"', page)]
    assert numbers == list(range(last_number - 199, last_number + 1))
    assert f"The last 200 of {last_number} lines." in page
    link = re.findall(r'<a href="([^"]+)">Show the whole log as plain text</a>', page)
    assert link == [f"{reverse('api-log', args=[execution.pk])}?download=raw"]


def test_a_line_of_many_characters_is_cut_on_the_page(execution: Execution, admin: User):
    store_lines(execution.pk, build_lines("x" * 10_000))
    execution.refresh_from_db()
    page = load_page(execution, admin)
    assert f"{'x' * 1_999}…</span>" in page


def test_a_log_with_lines_is_never_called_empty(execution: Execution, admin: User):
    Execution.objects.filter(pk=execution.pk).update(next_line_number=1)
    assert "data-log-empty>" in load_page(execution, admin)
    execution.refresh_from_db()
    store_lines(execution.pk, build_lines("a line"))
    assert "data-log-empty hidden>" in load_page(execution, admin, "?tab=outputs")


def test_the_calls_tab_has_the_first_calls(execution: Execution, admin: User):
    AwsCall.objects.filter(execution=execution).delete()
    assert "data-none>" in load_page(execution, admin, "?tab=calls")
    action = ActionRun.objects.filter(step__stage__execution=execution).first()
    assert action is not None
    AwsCall.objects.create(
        execution=execution,
        step=action.step,
        action=action,
        attempt=1,
        phase="start",
        number=1,
        service="ecs",
        operation="UpdateService",
        is_write=True,
        params_hash="0",
        parameters="{}",
        planned_at=timezone.now(),
        state=CallState.FAILED,
        error={"code": "AccessDenied", "message": "no"},
    )
    page = load_page(execution, admin, "?tab=calls")
    assert "<code>ecs:UpdateService</code>" in page
    assert "AccessDenied: no" in page
    assert "data-none hidden>" in page
    assert "<code>ecs:UpdateService</code>" not in load_page(execution, admin)
