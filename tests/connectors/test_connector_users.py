"""The users of a connector: list, page, API and deletion follow one rule."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from catalog.models import Artifact, Environment, Infrastructure, Manifest, Service, ServiceOverride
from connectors.models import Connector
from connectors.operations import delete_connector
from connectors.usages import count_connector_usages, find_usages
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.api.sample_project import make_world
from web.http.problems import Conflict, ResourceInUse

pytestmark = pytest.mark.django_db

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]
GIT_STEP = """
                - step:
                    identifier: task
                    type: EcsRunTask
                    spec:
                      taskDefinition:
                        type: Git
                        spec: {connector: REFERENCE, branch: main, files: task.yaml}
                      runTaskRequestDefinition:
                        type: Git
                        spec: {connector: REFERENCE, branch: main, files: run.yaml}
"""
CLOUD_STEP = """
                - step:
                    identifier: cloud
                    type: TerraformCloudRun
                    spec: {runType: PlanOnly, connectorRef: REFERENCE, organization: acme, workspace: net}
"""
PIPELINE = """\
pipeline:
  identifier: flow
  name: Flow
  stages:
    - stage:
        identifier: first
        name: First
        type: Deployment
        spec:
          deploymentType: ECS
          service: {serviceRef: web}
          environment:
            environmentRef: dev
            infrastructureDefinitions: [{identifier: main}]
          execution:
            steps:
"""


def add_connector(scope: Scope, identifier: str, kind: str) -> Connector:
    return Connector.objects.create(scope=scope, identifier=identifier, name=identifier, kind=kind)


def add_service(scope: Scope) -> Service:
    return Service.objects.create(scope=scope, identifier="web", name="Web")


def add_environment(scope: Scope) -> Environment:
    return Environment.objects.create(scope=scope, identifier="dev", name="Dev")


def add_pipeline(scope: Scope, step: str, reference: str) -> None:
    yaml = PIPELINE + step.lstrip("\n").replace("REFERENCE", reference)
    Pipeline.objects.create(scope=scope, identifier="flow", name="Flow", yaml=yaml)


def use_in_infrastructure(scope: Scope, connector: Connector) -> None:
    place = {"identifier": "main", "name": "Main", "region": "eu-west-1", "cluster": "shop"}
    Infrastructure.objects.create(environment=add_environment(scope), connector=connector, **place)


def use_in_manifest(scope: Scope, connector: Connector) -> None:
    Manifest.objects.create(
        service=add_service(scope),
        identifier="task",
        kind="EcsTaskDefinition",
        store="Git",
        paths=["task.yaml"],
        place={"connector": connector.identifier, "branch": "main"},
    )


def use_in_image_source(scope: Scope, connector: Connector) -> None:
    types = {"Aws": "Ecr", "DockerRegistry": "DockerRegistry"}
    source = {"type": types[connector.kind], "connector": connector.identifier, "imagePath": "shop/web"}
    Artifact.objects.create(service=add_service(scope), image="shop/web", source=source)


def use_in_override(scope: Scope, connector: Connector) -> None:
    row = {"identifier": "task", "kind": "EcsTaskDefinition", "store": "S3", "paths": ["task.yaml"]}
    place = {"connector": connector.identifier, "region": "eu-west-1", "bucket": "shop"}
    ServiceOverride.objects.create(
        environment=add_environment(scope),
        service=add_service(scope),
        manifests=[row | {"content": "", "place": place}],
    )


def use_in_step_manifest(scope: Scope, connector: Connector) -> None:
    add_pipeline(scope, GIT_STEP, connector.identifier)


def use_in_step(scope: Scope, connector: Connector) -> None:
    add_pipeline(scope, CLOUD_STEP, connector.identifier)


def use_in_step_from_above(scope: Scope, connector: Connector) -> None:
    Connector.objects.filter(pk=connector.pk).update(scope=Scope.objects.account())
    add_pipeline(scope, CLOUD_STEP, f"account.{connector.identifier}")


USES = [
    ("Aws", use_in_infrastructure, "1 infrastructure", "infrastructure Main of Dev"),
    ("Git", use_in_manifest, "1 service", "service Web"),
    ("Aws", use_in_image_source, "1 image source", "image source of service Web"),
    ("DockerRegistry", use_in_image_source, "1 image source", "image source of service Web"),
    ("Aws", use_in_override, "1 override", "override of Web in Dev"),
    ("Git", use_in_step_manifest, "1 pipeline", "pipeline Flow"),
    ("TerraformCloud", use_in_step, "1 pipeline", "pipeline Flow"),
    ("TerraformCloud", use_in_step_from_above, "1 pipeline", "pipeline Flow"),
]


@pytest.mark.parametrize(("kind", "use", "count", "title"), USES)
def test_each_user_is_counted_linked_and_keeps_its_connector(
    project: Scope,
    admin: User,
    browse: Browse,
    call: Call,
    kind: str,
    use: Callable[[Scope, Connector], None],
    count: str,
    title: str,
) -> None:
    connector, unused = add_connector(project, "used", kind), add_connector(project, "unused", kind)
    use(project, connector)
    connector.refresh_from_db()
    assert count_connector_usages([connector, unused]) == {connector.pk: count, unused.pk: ""}
    client = browse(admin)
    assert f'href="/connectors/{connector.pk}/#used-by">{count}</a>' in get_text(client, "/connectors/")
    for path in (f"/connectors/{connector.pk}/", f"/connectors/{connector.pk}/delete/"):
        assert re.search(rf'<a href="/[^"]+">{title}</a>', get_text(client, path))
    answer = call(admin).get(f"/api/v1/connectors/{connector.pk}/uses").json()
    assert [user["title"] for user in answer["results"]] == [title]
    assert client.get(answer["results"][0]["url"]).status_code == 200
    assert call(admin).delete(f"/api/v1/connectors/{connector.pk}").status_code == 409
    with pytest.raises(ResourceInUse, match=title):
        delete_connector(actor=admin, connector=connector)
    delete_connector(actor=admin, connector=unused)


def test_a_reader_gets_the_number_of_users_in_other_projects(
    project: Scope, other_project: Scope, viewer: User
) -> None:
    shared = add_connector(Scope.objects.account(), "used", "DockerRegistry")
    use_in_image_source(other_project, shared)
    usages = find_usages(shared, viewer)
    assert (usages.visible, usages.hidden) == ((), 1)


def test_a_manifest_may_name_a_connector_with_the_level_of_its_scope(project: Scope, admin: User) -> None:
    above = add_connector(Scope.objects.account(), "used", "Git")
    near = add_connector(project, "used", "Git")
    use_in_manifest(project, near)
    Manifest.objects.update(place={"connector": "account.used", "branch": "main"})
    assert count_connector_usages([above, near]) == {above.pk: "1 service", near.pk: ""}


def test_the_number_of_queries_stays_the_same_for_more_connectors(
    project: Scope, django_assert_max_num_queries: Any
) -> None:
    connectors = [add_connector(project, f"c{number}", "Git") for number in range(9)]
    for number in range(9):
        yaml = PIPELINE + GIT_STEP.lstrip("\n").replace("REFERENCE", f"c{number}")
        Pipeline.objects.create(scope=project, identifier=f"p{number}", name="Flow", yaml=yaml)
    with django_assert_max_num_queries(10):
        assert set(count_connector_usages(connectors).values()) == {"1 pipeline"}


def test_executions_keep_their_connector_and_the_page_says_so(
    project: Scope, admin: User, browse: Browse
) -> None:
    connector = make_world(project, admin, admin).connector
    Infrastructure.objects.all().delete()
    reason = "1 execution in the history used this connector"
    page = get_text(browse(admin), reverse("delete-connector", args=[connector.pk]))
    assert reason in page
    assert "button danger" not in page
    with pytest.raises(Conflict, match=reason):
        delete_connector(actor=admin, connector=connector)


def get_text(client: Client, path: str) -> str:
    return client.get(path).content.decode()
