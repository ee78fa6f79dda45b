"""The connector and the region of a manifest that a step brings itself are chosen from lists."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from connectors.models import Connector
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
STEP = "pipeline.stages.0.stage.spec.execution.steps.0"
SPEC = "spec.runTaskRequestDefinition.0"
TEXT = """\
pipeline:
  identifier: shop
  name: Shop
  stages:
    - stage:
        identifier: dev
        type: Deployment
        spec:
          deploymentType: ECS
          execution:
            steps:
              - step:
                  identifier: job
                  type: EcsRunTask
                  spec:
                    runTaskRequestDefinition:
                      type: S3
                      spec: {connector: old, region: <+env.variables.region>, bucket: files, files: a.yaml}
"""


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    made = make_world(project, admin, admin)
    above = Scope.objects.account()
    for scope in (project, above):
        Connector.objects.create(scope=scope, identifier="code", name=f"Code of {scope.path}", kind="Git")
    Connector.objects.create(scope=above, identifier="images", name="Images", kind="DockerRegistry")
    return made


def options(page: str, name: str) -> list[tuple[str, str]]:
    select = re.search(rf'<select[^>]*name="{re.escape(name)}"[^>]*>(.*?)</select>', page, re.DOTALL)
    assert select, name
    return re.findall(r'<option value="([^"]*)"( selected)?>', select[1])


def shown(client: Client, scope: Scope, **given: str) -> str:
    asked = {"in_scope": scope.path, "yaml": TEXT, "do": "open", "at": STEP, "is": "job", **given}
    return client.post("/pipelines/visual/", asked).content.decode()


def test_connectors_that_lead_to_files_and_regions_are_offered_and_what_is_written_stays(
    world: World, admin: User, browse: Browse
):
    page = shown(browse(admin), world.pipeline.scope)
    connectors = options(page, f"{SPEC}.connector")
    aws = Connector.objects.get(kind=Connector.Kind.AWS).identifier
    assert {name for name, _ in connectors} == {"", "old", aws, "code", "account.code"}
    assert [name for name, is_chosen in connectors if is_chosen] == ["old"]
    regions = options(page, f"{SPEC}.region")
    assert ("eu-central-1", "") in regions
    assert [name for name, is_chosen in regions if is_chosen] == ["&lt;+env.variables.region&gt;"]


def test_what_is_chosen_is_written(world: World, admin: User, browse: Browse):
    given = {f"{SPEC}.store": "S3", f"{SPEC}.connector": "code", f"{SPEC}.region": "eu-west-1"}
    given |= {f"{SPEC}.bucket": "files", f"{SPEC}.file": "a.yaml", "do": "apply"}
    given |= {"form_at": STEP, "form_is": "job", "spec.runTaskRequestDefinition.rows": "1"}
    page = shown(browse(admin), world.pipeline.scope, **given)
    written = page.split("</textarea>")[0]
    assert "connector: code" in written
    assert "region: eu-west-1" in written
    assert "bucket: files" in written


def test_a_connector_that_somebody_may_not_use_is_not_offered(world: World, browse: Browse):
    reader = make_person("reader", "viewer", world.pipeline.scope)
    page = shown(browse(reader), world.pipeline.scope)
    assert re.search(rf'<input[^>]*name="{re.escape(SPEC)}.connector" value="old"', page)
