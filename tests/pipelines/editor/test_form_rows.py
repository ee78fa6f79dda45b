"""Lists of mappings by rows: cells change values, entries come and go, and comments stay where they were."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from catalog.manifests.yaml_drafts import YamlDraft
from connectors.models import Connector
from pipelines.definition.parser import parse_pipeline
from pipelines.editor.commands import run_command
from pipelines.editor.failure_rows import FailureRows
from pipelines.editor.form_rows import CellErrors, StepManifestRow
from pipelines.editor.forms import build_form
from pipelines.editor.target_fields import EditorChoices
from pipelines.editor.tree_paths import parse_path
from rbac.models import Scope, User
from steps.failure_strategies import ERROR_TYPES
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person

STEP = "pipeline.stages.0.stage.spec.execution.steps.0"
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
          service: {serviceRef: web}
          environment: {environmentRef: dev, infrastructureDefinitions: [{identifier: eu}]}
          execution:
            steps:
              - step:
                  identifier: ask
                  type: Http
                  # Who is woken by this.
                  failureStrategies:
                    - onFailure:
                        errors: [Timeout] # the network
                        action:
                          type: Retry
                          spec:
                            retryCount: 2
                            retryIntervals: [10s] # short
                    - onFailure: {errors: [AllErrors], action: {type: Ignore, spec: {}}}
                  spec:
                    url: https://example.com/
                    headers:
                      # Whose it is.
                      - key: Team # ours
                        value: shop
                      - key: Count
                        value: 3
"""


def fields_at(text: str, at: str = STEP) -> dict[str, Any]:
    form = build_form(YamlDraft(text).value, parse_path(at), EditorChoices())
    assert form
    return {field.name: field for field in form.fields}


def collect_form_values(text: str, at: str = STEP) -> dict[str, str]:
    """Return the values that a browser sends for an unchanged form."""
    values: dict[str, str] = {"form_at": at, "form_is": "ask"}
    for field in fields_at(text, at).values():
        values[field.name] = field.value
        if field.kind in ("rows", "item"):
            del values[field.name]
            values[f"{field.name}.rows"] = str(field.total)
        for cell in (cell for row in field.rows for cell in row.cells):
            checks = {f"{cell.name}.{option}": "on" for option in cell.checked}
            values |= checks if cell.kind == "checks" else {cell.name: cell.value}
    return values


def apply_cells(text: str, *prefixes: str, **cells: str) -> str:
    values = {
        name: value
        for name, value in collect_form_values(text).items()
        if not name.startswith(prefixes or ("-",))
    }
    outcome = run_command(text, values | {name.replace("__", "."): value for name, value in cells.items()})
    assert not outcome.problem
    assert not outcome.errors
    return outcome.text


def test_a_form_that_is_applied_unchanged_changes_nothing():
    assert apply_cells(TEXT) == TEXT


def test_one_cell_changes_one_line():
    assert apply_cells(TEXT, spec__headers__0__value="store") == TEXT.replace("value: shop", "value: store")
    expected = TEXT.replace("retryCount: 2", "retryCount: 3")
    assert apply_cells(TEXT, failureStrategies__0__retryCount="3") == expected


def test_an_entry_is_removed_and_another_added():
    text = apply_cells(
        TEXT,
        "spec.headers.0.",
        spec__headers__2__key="New",
        spec__headers__2__value='<+secrets.getValue("t")>',
    )
    assert parse_pipeline(text).stages[0].steps[0].spec["headers"] == [
        {"key": "Count", "value": 3},
        {"key": "New", "value": '<+secrets.getValue("t")>'},
    ]
    assert "headers" not in apply_cells(TEXT, "spec.headers.0.", "spec.headers.1.")


def test_a_failure_strategy_becomes_another_kind():
    cells = {"failureStrategies__0__action": "ManualIntervention", "failureStrategies__0__timeout": "1h"}
    text = apply_cells(TEXT, **cells, failureStrategies__0__onTimeout="Abort")
    (first, second) = parse_pipeline(text).stages[0].steps[0].failure_strategies
    assert first["action"]["then"]["type"] == "Abort"
    assert second["errors"] == ["AllErrors"]
    assert "# the network" in text
    assert "retryCount" not in text


@pytest.mark.parametrize(
    ("cells", "wrong"),
    [
        ({"failureStrategies.0.retryCount": "many"}, "failureStrategies.0.retryCount"),
        ({"failureStrategies.0.retryIntervals": "10s, soon"}, "failureStrategies.0.retryIntervals"),
        ({"failureStrategies.7.action": "Ignore"}, "failureStrategies.7.errors"),
        ({"spec.headers.0.key": ""}, "spec.headers.0.key"),
        ({"spec.headers.2.value": "lost"}, "spec.headers.2.key"),
    ],
)
def test_what_is_wrong_is_said_beside_its_cell_and_nothing_is_lost(cells: dict[str, str], wrong: str):
    values = collect_form_values(TEXT) | cells
    outcome = run_command(TEXT, values)
    assert set(outcome.errors) == {wrong}
    assert run_command(TEXT, values | {"do": "close"}).open_path == ""
    assert outcome.text == TEXT
    form = build_form(YamlDraft(TEXT).value, parse_path(STEP), EditorChoices(), values, outcome.errors)
    assert form
    form_cells = {c.name: c for field in form.fields for row in field.rows for c in row.cells}
    assert form_cells[wrong].error
    assert form_cells[next(iter(cells))].value == next(iter(cells.values()))


def test_what_cells_cannot_say_is_shown_as_yaml():
    odd = TEXT.replace("value: shop", "values: [shop]")
    assert fields_at(odd)["spec.headers"].kind == "yaml"
    assert fields_at(odd.replace("headers:", "other:"))["spec.headers"].kind == "rows"
    assert apply_cells(odd) == odd
    odd = TEXT.replace("type: Ignore", "type: Dance")
    assert fields_at(odd)["failureStrategies"].kind == "yaml"


@pytest.mark.parametrize(
    "action",
    [
        {"type": "Ignore"},
        {"type": "Retry", "spec": {"retryCount": 1, "retryIntervals": ["1s", "2m"]}},
        {
            "type": "Retry",
            "spec": {
                "retryCount": 1,
                "retryIntervals": ["1s"],
                "onRetryFailure": {
                    "action": {
                        "type": "ManualIntervention",
                        "spec": {"timeout": "1h", "onTimeout": {"action": {"type": "Abort"}}},
                    }
                },
            },
        },
        {"type": "ManualIntervention", "spec": {"timeout": "1h"}},
    ],
)
def test_every_failure_strategy_can_be_said_by_cells(action: dict[str, Any]):
    entry = {"onFailure": {"errors": list(ERROR_TYPES), "action": action}}
    cells = FailureRows().render_cells(entry)
    assert cells
    assert FailureRows().parse_cells(cells) == entry


METRICS = """\
                    - namespace: AWS/ECS
                      metricName: CPUUtilization
                      threshold: 80.5
                      dimensions:
                        ClusterName: main
"""


def test_dimensions_and_names_are_written_one_in_each_line():
    text = TEXT.replace("type: Http", "type: Verify")
    text = text[: text.index("                    url:")] + "                    metrics:\n" + METRICS
    assert apply_cells(text) == text
    cells = {
        "spec__metrics__0__dimensions": "ClusterName=main\nServiceName=web",
        "spec__alarms": "a\r\nb c\n",
    }
    spec = parse_pipeline(apply_cells(text, **cells)).stages[0].steps[0].spec
    assert spec["alarms"] == ["a", "b c"]
    assert spec["metrics"][0]["dimensions"] == {"ClusterName": "main", "ServiceName": "web"}
    assert spec["metrics"][0]["threshold"] == 80.5


def test_a_step_whose_manifest_is_not_chosen_yet_can_be_named():
    text = TEXT[: TEXT.index("                  # Who")].replace("type: Http", "type: EcsRunTask")
    assert apply_cells(text, name="Migrate") == text + "                  name: Migrate\n"


def test_delegate_selectors_are_names_of_stages_groups_and_steps():
    assert "delegateSelectors:" in apply_cells(TEXT, delegateSelectors="prod\neu")
    stage = fields_at(TEXT, "pipeline.stages.0")
    assert stage["delegateSelectors"].kind == "names"
    assert stage["failureStrategies"].kind == "rows"


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "Inline", "spec": {"content": "count: 1\nlaunchType: FARGATE\n"}},
        {"type": "FileStore", "spec": {"files": "/tasks/request.yaml"}},
        {"type": "Git", "spec": {"connector": "account.git", "branch": "main", "files": "request.yaml"}},
        {
            "type": "S3",
            "spec": {"connector": "aws", "region": "eu-west-1", "bucket": "b-1", "files": "a.yaml"},
        },
    ],
)
def test_a_manifest_of_a_step_is_said_by_cells_in_every_store(entry: dict[str, Any]):
    table = StepManifestRow(is_needed=True)
    cells = table.render_cells(entry)
    assert cells
    assert table.parse_cells(cells) == entry
    assert table.render_cells({**entry, "spec": {**entry["spec"], "other": "x"}}) is None
    with pytest.raises(CellErrors):
        table.parse_cells({"store": entry["type"]})


def test_the_pipeline_itself_has_a_form():
    values = collect_form_values(TEXT, "pipeline") | {"form_is": "", "name": "Store"}
    values |= {"variables.0.name": "color", "variables.0.value": "blue"}
    text = run_command(TEXT, values | {"delegateSelectors": "prod"}).text
    spec = parse_pipeline(text)
    assert (spec.name, spec.stages[0].steps[0].selectors) == ("Store", ("prod",))
    assert "    color: blue" in text
    assert set(run_command(TEXT, values | {"name": "", "variables.0.name": "1"}).errors) == {
        "name",
        "variables.0.name",
    }


pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
SPEC = "spec.runTaskRequestDefinition.0"
MANIFEST_TEXT = """\
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
    sample_world = make_world(project, admin, admin)
    above = Scope.objects.account()
    for scope in (project, above):
        Connector.objects.create(scope=scope, identifier="code", name=f"Code of {scope.path}", kind="Git")
    Connector.objects.create(scope=above, identifier="images", name="Images", kind="DockerRegistry")
    return sample_world


def options(page: str, name: str) -> list[tuple[str, str]]:
    select = re.search(rf'<select[^>]*name="{re.escape(name)}"[^>]*>(.*?)</select>', page, re.DOTALL)
    assert select, name
    return re.findall(r'<option value="([^"]*)"( selected)?>', select[1])


def render_form(client: Client, scope: Scope, **fields: str) -> str:
    data = {"in_scope": scope.path, "yaml": MANIFEST_TEXT, "do": "open", "at": STEP, "is": "job", **fields}
    return client.post("/pipelines/visual/", data).content.decode()


def test_connectors_that_lead_to_files_and_regions_are_offered_and_what_is_written_stays(
    world: World, admin: User, browse: Browse
):
    page = render_form(browse(admin), world.pipeline.scope)
    connectors = options(page, f"{SPEC}.connector")
    aws = Connector.objects.get(kind=Connector.Kind.AWS).identifier
    assert {name for name, _ in connectors} == {"", "old", aws, "code", "account.code"}
    assert [name for name, is_chosen in connectors if is_chosen] == ["old"]
    regions = options(page, f"{SPEC}.region")
    assert ("eu-central-1", "") in regions
    assert [name for name, is_chosen in regions if is_chosen] == ["&lt;+env.variables.region&gt;"]


def test_what_is_chosen_is_written(world: World, admin: User, browse: Browse):
    fields = {f"{SPEC}.store": "S3", f"{SPEC}.connector": "code", f"{SPEC}.region": "eu-west-1"}
    fields |= {f"{SPEC}.bucket": "files", f"{SPEC}.file": "a.yaml", "do": "apply"}
    fields |= {"form_at": STEP, "form_is": "job", "spec.runTaskRequestDefinition.rows": "1"}
    page = render_form(browse(admin), world.pipeline.scope, **fields)
    yaml_text = page.split("</textarea>")[0]
    assert "connector: code" in yaml_text
    assert "region: eu-west-1" in yaml_text
    assert "bucket: files" in yaml_text


def test_a_connector_that_somebody_may_not_use_is_not_offered(world: World, browse: Browse):
    reader = make_person("reader", "viewer", world.pipeline.scope)
    page = render_form(browse(reader), world.pipeline.scope)
    assert re.search(rf'<input[^>]*name="{re.escape(SPEC)}.connector" value="old"', page)


def test_a_store_of_spaces_is_no_store() -> None:
    assert StepManifestRow(is_needed=False).parse_cells({"store": "\t", "content": "a: b"}) is None
    with pytest.raises(CellErrors) as refused:
        StepManifestRow(is_needed=True).parse_cells({"store": "\t", "content": "a: b"})
    assert refused.value.errors["store"] == "Enter a value."
