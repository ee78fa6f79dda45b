"""Deploying a new image from the page of its service."""

from collections.abc import Callable

import pytest
from django.test import Client

from catalog.models import Artifact, Service
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import User
from tests.api.sample_project import PIPELINE, World, make_world

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


def _add_stage_of_worker(sample: World, steps: str) -> Service:
    """Add a stage of a service with another image to the pipeline."""
    worker = Service.objects.create(scope=sample.scope, identifier="worker", name="Worker")
    Artifact.objects.create(service=worker, image="shop/worker", tag="v1")
    stage = PIPELINE.split("  stages:\n", 1)[1].replace("myapp", "worker").replace("deploy\n", "second\n", 1)
    sample.pipeline.yaml = PIPELINE + stage.replace("strategy: Rolling", steps)
    sample.pipeline.save(update_fields=["yaml"])
    return worker


SCALE = (
    "execution: {steps: [{step: {identifier: go, type: EcsScale, spec: {service: worker, instances: 2}}}]}"
)


def test_a_pipeline_that_only_scales_a_service_is_not_offered_for_its_image(
    sample: World, admin: User, browse: Browse
) -> None:
    worker, client = _add_stage_of_worker(sample, SCALE), browse(admin)
    before = Execution.objects.count()
    page = client.get(f"/services/{worker.pk}/").content.decode()
    assert "Deploy new image" not in page
    # It still uses the service.
    assert f"/pipelines/{sample.pipeline.pk}/" in page
    own = PIPELINE.replace("myapp", "worker").replace("identifier: rolling", "identifier: own")
    Pipeline.objects.create(scope=sample.scope, identifier="own", name="Own", yaml=own)
    path = f"/services/{worker.pk}/deploy/"
    assert "Deploy with Own" in client.get(path).content.decode()
    form = {"tag": "v7", "pipeline": sample.pipeline.pk}
    assert "does not deploy the service" in client.post(path, form).content.decode()
    assert Execution.objects.count() == before
    assert client.post(f"/services/{sample.service.pk}/deploy/", form).status_code == 302
    assert Execution.objects.latest("created_at").artifact["image"] == sample.service.artifact.image


def test_a_pipeline_is_not_offered_for_a_service_that_it_deploys_with_the_image_of_another(
    sample: World, admin: User, browse: Browse
) -> None:
    worker, client = _add_stage_of_worker(sample, "strategy: Rolling"), browse(admin)
    path = f"/services/{worker.pk}/deploy/"
    assert "No pipeline deploys this service" in client.get(path).content.decode()
    Artifact.objects.filter(service=worker).update(image=sample.service.artifact.image)
    assert f"Deploy with {sample.pipeline.name}" in client.get(path).content.decode()
    Artifact.objects.filter(service=worker).delete()
    assert f"Deploy with {sample.pipeline.name}" in client.get(path).content.decode()
