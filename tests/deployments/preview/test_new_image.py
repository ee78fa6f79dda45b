"""Deploying a new image from the page of its service."""

from collections.abc import Callable

import pytest
from django.test import Client

from catalog.models import Service
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import User
from tests.api.sample_project import World, make_world

Browse = Callable[[User], Client]


@pytest.fixture
def sample(project: object, admin: User) -> World:
    return make_world(project, admin, admin)


def test_one_click_deploys_another_tag_with_the_pipeline_of_the_service(
    sample: World, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    page = client.get(f"/services/{sample.service.pk}/").content.decode()
    assert f'action="/services/{sample.service.pk}/deploy/"' in page
    form = {"tag": "2.0", "pipeline": sample.pipeline.pk}
    response = client.post(f"/services/{sample.service.pk}/deploy/", form)
    execution = Execution.objects.latest("created_at")
    assert response["Location"] == f"/deployments/{execution.pk}/"
    assert (execution.pipeline, execution.tag, execution.yaml) == (
        sample.pipeline,
        "2.0",
        sample.pipeline.yaml,
    )
    assert '<option value="2.0">' in client.get(f"/services/{sample.service.pk}/").content.decode()


def test_a_wrong_tag_and_a_pipeline_that_does_not_deploy_it_are_refused(
    sample: World, admin: User, browse: Browse
) -> None:
    before = Execution.objects.count()
    other = Pipeline.objects.create(scope=sample.scope, identifier="other", name="Other", yaml="pipeline: {}")
    path = f"/services/{sample.service.pk}/deploy/"
    wrong_tag = browse(admin).post(path, {"tag": "a b", "pipeline": sample.pipeline.pk})
    assert "Use up to 128 letters, digits" in wrong_tag.content.decode()
    wrong_pipeline = browse(admin).post(path, {"tag": "1", "pipeline": other.pk})
    assert "does not deploy the service" in wrong_pipeline.content.decode()
    assert Execution.objects.count() == before


def test_a_service_that_no_pipeline_deploys_says_what_is_missing(
    sample: World, admin: User, browse: Browse
) -> None:
    unused_service = Service.objects.create(scope=sample.scope, identifier="unused", name="Unused")
    assert (
        "No pipeline deploys this service"
        in browse(admin).get(f"/services/{unused_service.pk}/deploy/").content.decode()
    )
