"""The page fills in what was read, shows the review, and makes the change."""

import re

import pytest
from django.test import Client

from catalog.models import Manifest, Service
from delegates.models import LookupRequest
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.inventory.strategy_changes.read_pipelines import make_read_pipeline
from tests.inventory.strategy_changes.readings import GREEN, PRODUCTION, ROLE, TEST, build_option

pytestmark = pytest.mark.django_db
SETTINGS = {
    "production": PRODUCTION,
    "test": TEST,
    "alternate_group": GREEN,
    "role": ROLE,
    "percent": "10",
    "step_minutes": "5",
    "bake_minutes": "5",
}


@pytest.fixture
def pipeline(admin: User, project: Scope) -> Pipeline:
    return make_read_pipeline(project, admin)


@pytest.fixture
def browser(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def test_a_change_is_filled_in_reviewed_and_made(browser: Client, pipeline: Pipeline) -> None:
    address = f"/pipelines/{pipeline.pk}/strategy/?stage=deploy&to=CANARY"
    page = browser.get(address).content.decode()
    assert f'<option value="{PRODUCTION}" selected>' in page
    assert "2 of 2 tasks running" in page
    review = browser.post(address, SETTINGS).content.decode()
    assert "Review: Rolling to Canary by ECS" in review
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', review)
    assert digest
    done = browser.post(address, {**SETTINGS, "digest": digest[1]})
    assert done["location"] == f"/pipelines/{pipeline.pk}/preview/"
    pipeline.refresh_from_db()
    assert "EcsNativeDeploy" in pipeline.yaml


@pytest.mark.parametrize(
    ("strategy", "bake_time", "shown"), [("ROLLING", 0, 5), ("BLUE_GREEN", 0, 0), ("BLUE_GREEN", 7, 7)]
)
def test_the_bake_time_of_the_service_is_filled_in(
    browser: Client, pipeline: Pipeline, strategy: str, bake_time: int, shown: int
) -> None:
    configuration = {"strategy": strategy, "bakeTimeInMinutes": bake_time}
    LookupRequest.objects.update(report={"seen": [build_option(deploymentConfiguration=configuration)]})
    page = browser.get(f"/pipelines/{pipeline.pk}/strategy/?to=CANARY").content.decode()
    assert f'name="bake_minutes" value="{shown}"' in page


def test_what_is_missing_leaves_no_button_to_confirm(browser: Client, pipeline: Pipeline) -> None:
    address = f"/pipelines/{pipeline.pk}/strategy/?to=CANARY"
    review = browser.post(address, {**SETTINGS, "role": "admin"}).content.decode()
    assert "Enter the ARN of the role" in review
    assert 'name="digest"' not in review


def test_a_page_waits_for_the_delegate_that_reads(browser: Client, pipeline: Pipeline) -> None:
    LookupRequest.objects.all().delete()
    page = browser.get(f"/pipelines/{pipeline.pk}/strategy/").content.decode()
    assert "Reading the ECS service through a delegate" in page


def test_the_service_leads_to_the_stages_that_deploy_it(browser: Client, pipeline: Pipeline) -> None:
    service = Service.objects.get(identifier="shop")
    page = browser.get(f"/services/{service.pk}/strategy/").content.decode()
    assert f"/pipelines/{pipeline.pk}/strategy/?stage=deploy" in page


def test_a_service_without_an_ecs_service_has_no_strategy_to_change(
    browser: Client, pipeline: Pipeline
) -> None:
    Manifest.objects.all().delete()
    page = browser.get(f"/pipelines/{pipeline.pk}/strategy/").content.decode()
    assert "The service shop has no service definition" in page
    assert "Add a service definition to deploy one." in page


def test_a_pipeline_that_deploys_no_service_has_no_strategy_to_change(
    browser: Client, pipeline: Pipeline
) -> None:
    address = f"/pipelines/{pipeline.pk}/"
    assert "Change strategy" in browser.get(address).content.decode()
    lines = [
        line for line in pipeline.yaml.splitlines() if "EcsRolling" not in line and "rollback" not in line
    ]
    Pipeline.objects.filter(pk=pipeline.pk).update(yaml="\n".join(lines))
    assert "Change strategy" not in browser.get(address).content.decode()
    assert "deploys no service" in browser.get(f"{address}strategy/").content.decode()
    service = Service.objects.get(identifier="shop")
    page = browser.get(f"/services/{service.pk}/strategy/").content.decode()
    assert "No pipeline that you may edit deploys this service." in page
