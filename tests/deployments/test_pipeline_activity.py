"""The list of pipelines: last runs, success rate, filters, sort order, density."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from deployments.execution.queries import load_pipeline_activity
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import Scope, User
from steps.states import Outcome, Status

pytestmark = pytest.mark.django_db


@pytest.fixture
def demo(project: Scope) -> Pipeline:
    return Pipeline.objects.create(scope=project, identifier="demo", name="Demo", yaml="pipeline: {}")


@pytest.fixture
def other(demo: Pipeline) -> Pipeline:
    return Pipeline.objects.create(scope=demo.scope, identifier="zeta", name="Zeta", yaml=demo.yaml)


@pytest.fixture
def reader(admin: User, project: Scope) -> Client:
    browser = Client()
    browser.force_login(admin)
    return browser


def create_execution(pipeline: Pipeline, number: int, status: Status) -> Execution:
    is_open = status == Status.RUNNING
    Pipeline.objects.filter(pk=pipeline.pk).update(next_number=number + 1)
    return Execution.objects.create(
        pipeline=pipeline,
        scope=pipeline.scope,
        number=number,
        yaml=pipeline.yaml,
        status=status,
        due_at="2026-01-01T00:00Z" if is_open else None,
    )


def list_names(reader: Client, query: str) -> list[str]:
    content = reader.get(reverse("pipelines") + query).content.decode()
    return re.findall(r'<a class="name" href="/pipelines/\d+/">([^<]+)</a>', content)


def test_the_newest_runs_and_their_success_rate_are_counted(
    demo: Pipeline, other: Pipeline, admin: User
) -> None:
    for number in range(1, 31):
        create_execution(demo, number, Status.FAILED if number <= 10 or number == 29 else Status.SUCCESS)
    create_execution(demo, 31, Status.RUNNING)
    activity = load_pipeline_activity(admin, [demo, other])
    assert [item.number for item in activity[demo.pk].recent] == [27, 28, 29, 30, 31]
    assert activity[demo.pk].running_count == 1
    # Of the last twenty runs, 12 to 31, one runs and one of the other nineteen failed.
    assert activity[demo.pk].success_rate == 94
    assert activity[other.pk].last is None
    assert activity[other.pk].success_rate is None


def test_filters_select_running_failed_and_never_run_pipelines(
    reader: Client, demo: Pipeline, other: Pipeline
) -> None:
    assert list_names(reader, "?show=never&sort=name") == [demo.name, "Zeta"]
    create_execution(demo, 1, Status.FAILED)
    assert list_names(reader, "?show=failed") == [demo.name]
    assert list_names(reader, "?show=never") == ["Zeta"]
    create_execution(demo, 2, Status.RUNNING)
    assert list_names(reader, "?show=running") == [demo.name]
    assert list_names(reader, "?show=failed") == []


def test_search_and_sort_come_from_the_address(reader: Client, demo: Pipeline, other: Pipeline) -> None:
    assert list_names(reader, "?q=ZET") == ["Zeta"]
    assert list_names(reader, "?sort=name")[-1] == "Zeta"
    assert list_names(reader, "")[0] == "Zeta"
    assert list_names(reader, "?q=nothing") == []
    assert "Clear filters" in reader.get(reverse("pipelines") + "?q=nothing").content.decode()


def test_compact_rows_and_unknown_options(reader: Client, demo: Pipeline) -> None:
    assert 'class="table dense"' in reader.get(reverse("pipelines") + "?density=compact").content.decode()
    assert list_names(reader, "?density=x&sort=x&show=x") == [demo.name]


def test_a_run_shows_in_the_strip_with_its_status(reader: Client, demo: Pipeline) -> None:
    execution = create_execution(demo, 7, Status.ROLLED_BACK)
    content = reader.get(reverse("pipelines")).content.decode()
    assert f'href="/deployments/{execution.pk}/" aria-label="#7: Rolled back"' in content
    assert "Rolled back" in content


def test_runs_of_an_unseen_scope_are_not_counted(demo: Pipeline) -> None:
    member = User.objects.create_user("stranger")
    create_execution(demo, 1, Status.SUCCESS)
    assert load_pipeline_activity(member, [demo])[demo.pk].last is None


def test_the_success_rate_counts_as_the_overview_does(demo: Pipeline, admin: User) -> None:
    create_execution(demo, 1, Status.SUCCESS)
    create_execution(demo, 2, Status.ABORTED)
    # The deployment itself failed, and its failure was ignored.
    ignored_execution = create_execution(demo, 3, Status.IGNORE_FAILED)
    Execution.objects.filter(pk=ignored_execution.pk).update(outcome=Outcome.FAILED)
    rolled_back_execution = create_execution(demo, 4, Status.SUCCESS)
    Execution.objects.filter(pk=rolled_back_execution.pk).update(outcome=Outcome.ROLLED_BACK_BY_AWS)
    activity = load_pipeline_activity(admin, [demo])[demo.pk]
    assert (activity.success_count, activity.failure_count) == (1, 2)


def test_an_aborted_run_is_no_failed_one(reader: Client, demo: Pipeline) -> None:
    create_execution(demo, 1, Status.ABORTED)
    assert list_names(reader, "?show=failed") == []
