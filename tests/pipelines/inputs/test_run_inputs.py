"""What a run is told: types, allowed values, patterns and secrets, at every door."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from deployments.engine.steps.inputs import build_expression_values
from deployments.execution.operations import run_pipeline
from deployments.journal.secret_values import list_stage_secrets
from deployments.models import Execution
from guards.patterns import describe_pattern_problem, is_full_match
from pipelines.inputs.input_sets import InputSetSpec, create_input_set
from pipelines.inputs.variables import (
    NUMBER,
    PipelineVariable,
    find_variable_problems,
    format_variable_value,
    parse_variables,
    validate_inputs,
)
from pipelines.models import InputSet, Pipeline
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from web.http.problems import BadInput

Browse = Callable[[User], Client]
WRITTEN: dict[str, Any] = {
    "plain": 1,
    "asked": "<+input>",
    "choice": "<+input>.default(a).allowedValues(a,b)",
    "version": "<+input>.regex(^v\\d+(?:\\.\\d+)?$)",
    "count": {"type": "Number", "default": 2, "allowedValues": [1, 2, 3]},
    "go": {"type": "Boolean", "value": True},
    "token": {"type": "Secret", "required": True, "description": "Of the API."},
}
VARIABLES = parse_variables(WRITTEN)
RIGHT: dict[str, Any] = {"asked": "x", "version": "v1.2", "token": "hush-hush"}
YAML = """\
  variables:
    version: <+input>.regex(v\\d+)
    color: {type: String, default: blue, allowedValues: [blue, green]}
    token: {type: Secret, required: true}
"""


def list_messages(**inputs: Any) -> dict[str, str]:
    return {problem["path"]: problem["message"] for problem in validate_inputs(VARIABLES, RIGHT | inputs)[1]}


def test_what_is_right_is_taken_and_secrets_are_kept_apart():
    values, errors = validate_inputs(VARIABLES, RIGHT | {"count": 3})
    assert not errors
    assert values.plain == {"asked": "x", "version": "v1.2", "count": 3}
    assert values.secrets == {"token": "hush-hush"}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"asked": None}, "is required"),
        ({"token": ""}, "is required"),
        ({"choice": "c"}, "must be one of a, b"),
        ({"version": "1"}, "must match the pattern"),
        ({"count": "3"}, "must be a number"),
        ({"count": True}, "must be a number"),
        ({"count": 4}, "must be one of 1, 2, 3"),
        ({"go": "yes"}, "must be true or false"),
        ({"other": 1}, "unknown variable"),
        ({"plain": []}, "must be a text, a number, true or false"),
    ],
)
def test_what_does_not_fit_is_named_with_the_reason(inputs: dict[str, Any], expected: str):
    ((path, message),) = list_messages(**inputs).items()
    assert path == f"inputs.{next(iter(inputs))}"
    assert expected in message


@pytest.mark.parametrize("is_preview", [True, False])
def test_an_optional_variable_without_a_value_is_empty(is_preview: bool):
    optional = parse_variables(
        {"note": {"required": False}, "key": {"type": "Secret", "required": False}, "must": "<+input>"}
    )
    for given_values in ({}, {"note": "", "key": ""}):
        values, errors = validate_inputs(optional, given_values | {"must": "x"}, is_preview=is_preview)
        assert not errors
        assert values.plain == {"note": "", "must": "x"}
        assert values.secrets.keys() == {"key"}


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("<+input>.sometimes(x)", "is not .default"),
        ("<+input>.regex((a)\\1)", "refers back"),
        ("<+input>.default(c).allowedValues(a,b)", "must be one of"),
        ({"type": "Text"}, "must be one of String"),
        ({"type": "Number", "value": "x"}, "must be a number"),
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": 1}, "must be a text"),
        ({"kind": 1}, "unknown key"),
        ({"allowedValues": [1, 2]}, "1 must be a text"),
        ({"type": "Number", "value": "<+input>.allowedValues(1,x)"}, "x must be a number"),
        ([1], "must be a text"),
    ],
)
def test_a_variable_that_cannot_be_is_refused_at_its_place(definition: Any, reason: str):
    ((location, message),) = find_variable_problems({"x": definition})
    assert location[0] == "x"
    assert reason in message


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ({"type": "Boolean", "default": True, "pattern": "true|false"}, False),
        ({"type": "Boolean", "default": True, "pattern": "True|False"}, False),
        ({"type": "Number", "default": 0.5, "pattern": "0[.][0-9]+"}, 0.00001),
        ("<+input>.regex(true|false)", True),
    ],
)
def test_a_pattern_reads_a_value_as_runs_write_it(definition: Any, value: Any):
    variables = parse_variables({"x": definition})
    assert validate_inputs(variables, {"x": value})[1] == []


@pytest.mark.parametrize(
    ("plain", "text", "value"),
    [
        (3, "5", 5),
        (0.5, "0.75", 0.75),
        (1.1, "1.20", "1.20"),
        (3, "many", "many"),
        (True, "false", False),
        (True, "5", "5"),
        ("3", "5", "5"),
    ],
)
def test_the_text_for_a_plain_value_has_its_type(plain: Any, text: str, value: Any):
    (variable,) = parse_variables({"x": plain})
    parsed = variable.parse_value(text)
    assert (type(parsed), parsed) == (type(value), value)


@given(st.text(st.sampled_from("ab*+?(){}[]|\\1,3.^$"), max_size=24))
def test_no_pattern_that_is_taken_makes_a_text_slow(pattern: str):
    if not describe_pattern_problem(pattern):
        is_full_match(pattern, "a" * 128 + "!")


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def asking(world: World) -> Pipeline:
    """A pipeline that asks for two inputs and a secret."""
    pipeline: Pipeline = world.pipeline
    pipeline.yaml = pipeline.yaml.replace("  stages:", YAML + "  stages:", 1)
    pipeline.save(update_fields=["yaml"])
    return pipeline


@pytest.mark.django_db
def test_the_form_of_a_run_asks_and_keeps_the_secret_to_itself(asking: Pipeline, admin: User, browse: Browse):
    client, address = browse(admin), f"/pipelines/{asking.pk}/run/"
    page = client.get(address).content.decode()
    assert 'name="input.version"' in page
    assert 'type="password"' in page
    form_inputs = {"tag": "v2", "input.version": "2", "input.token": "hush-hush", "input.color": "green"}
    refused = client.post(address, form_inputs).content.decode()
    assert "must match the pattern" in refused
    assert "hush-hush" not in refused
    assert client.post(address, form_inputs | {"input.version": "v2"}).status_code == 302
    execution = Execution.objects.latest("created_at")
    assert execution.inputs == {"version": "v2", "color": "green"}
    assert execution.secret_input_values == {"token": "hush-hush"}
    stage = execution.stages.get()
    assert "hush-hush" not in json.dumps(stage.values)
    assert "hush-hush" in list_stage_secrets(stage)
    assert build_expression_values(execution, stage)["pipeline"]["variables"]["token"] == "hush-hush"
    assert "hush-hush" not in client.get(f"/deployments/{execution.pk}/").content.decode()


@pytest.mark.django_db
def test_inputs_keep_their_line_ends_in_a_browser(asking: Pipeline, admin: User, browse: Browse):
    stored = "-----BEGIN\nAB\n"
    client, address = browse(admin), f"/pipelines/{asking.pk}"
    asking.yaml = asking.yaml.replace(
        "version: <+input>.regex(v\\d+)", f"version: {{default: {json.dumps(stored)}}}"
    )
    asking.save(update_fields=["yaml"])
    # Browsers send the text of an area with these line ends.
    entered = {"input.version": stored.replace("\n", "\r\n"), "input.token": "hush-hush"}
    for page in (f"{address}/run/", f"{address}/preview/"):
        assert f">\n{stored}</textarea>" in client.get(page).content.decode(), page
    assert client.post(f"{address}/run/", entered | {"tag": "v2"}).status_code == 302
    assert Execution.objects.latest("created_at").inputs == {"version": stored}
    kept = client.post(f"{address}/input-sets/new/", entered | {"from_run": "1"})
    assert f">\n{stored}</textarea>" in kept.content.decode()
    assert client.post(f"{address}/input-sets/new/", entered | {"name": "Spring"}).status_code == 302
    input_set = InputSet.objects.get(identifier="spring")
    edit = f"{address}/input-sets/{input_set.pk}/edit/"
    assert f">\n{stored}</textarea>" in client.get(edit).content.decode()
    assert client.post(edit, entered | {"name": "May", "version": input_set.version}).status_code == 302
    input_set.refresh_from_db()
    assert (input_set.name, input_set.inputs) == ("May", {"version": stored})


@pytest.mark.django_db
def test_a_key_whose_lines_the_browser_joined_is_refused(asking: Pipeline, admin: User, browse: Browse):
    client, address = browse(admin), f"/pipelines/{asking.pk}/run/"
    entered = {"tag": "v2", "input.version": "v2", "input.color": "blue"}
    joined = "-----BEGIN PRIVATE KEY-----hush-hush-----END PRIVATE KEY-----"
    before = Execution.objects.count()
    refused = client.post(address, entered | {"input.token": joined}).content.decode()
    assert "has lost its line ends" in refused
    assert "hush-hush" not in refused
    assert Execution.objects.count() == before


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAB\n-----END CERTIFICATE-----\n"
JOINED = CERTIFICATE.replace("\n", "")


@pytest.mark.django_db
def test_a_certificate_whose_lines_the_browser_joined_can_be_pasted_again(
    asking: Pipeline, admin: User, browse: Browse
):
    asking.yaml = asking.yaml.replace("<+input>.regex(v\\d+)", "<+input>")
    asking.save(update_fields=["yaml"])
    client, address = browse(admin), f"/pipelines/{asking.pk}"
    entered = {"tag": "v2", "name": "Spring", "input.color": "blue", "input.token": "hush-hush"}
    before = Execution.objects.count(), InputSet.objects.count()
    for page in ("run", "preview", "input-sets/new"):
        refused = client.post(f"{address}/{page}/", entered | {"input.version": JOINED}).content.decode()
        assert "has lost its line ends" in refused, page
        assert f">\n{JOINED}</textarea>" in refused, page
    assert (Execution.objects.count(), InputSet.objects.count()) == before
    # Browsers send the text of an area with these line ends.
    entered["input.version"] = CERTIFICATE.replace("\n", "\r\n")
    for page in ("run", "input-sets/new"):
        assert client.post(f"{address}/{page}/", entered).status_code == 302, page
    assert Execution.objects.latest("created_at").inputs["version"] == CERTIFICATE
    assert InputSet.objects.get(identifier="spring").inputs["version"] == CERTIFICATE


@pytest.mark.django_db
def test_a_certificate_of_one_line_that_a_form_shows_is_kept(asking: Pipeline, admin: User, browse: Browse):
    asking.yaml = asking.yaml.replace("<+input>.regex(v\\d+)", f"{{default: {json.dumps(JOINED)}}}")
    asking.save(update_fields=["yaml"])
    client, address = browse(admin), f"/pipelines/{asking.pk}"
    entered = {"tag": "v2", "name": "May", "input.version": JOINED, "input.token": "hush-hush"}
    assert client.post(f"{address}/run/", entered).status_code == 302
    assert Execution.objects.latest("created_at").inputs["version"] == JOINED
    stored = JOINED.replace("AB", "CD")
    spec = InputSetSpec("Spring", "", {"version": stored})
    spring = create_input_set(actor=admin, pipeline=asking, identifier="spring", spec=spec)
    entered["input.version"] = stored
    assert client.post(f"{address}/run/", entered | {"set": "spring"}).status_code == 302
    edit = f"{address}/input-sets/{spring.pk}/edit/"
    assert client.post(edit, entered | {"version": spring.version}).status_code == 302
    spring.refresh_from_db()
    assert (spring.name, spring.inputs["version"]) == ("May", stored)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "secret",
    [
        r'{"private_key": "-----BEGIN PRIVATE KEY-----\nAB\n-----END PRIVATE KEY-----\n"}',
        r'"{\"private_key\": \"-----BEGIN PRIVATE KEY-----\\nAB\\n-----END PRIVATE KEY-----\\n\"}"',
        "-----BEGIN PRIVATE KEY-----%0AAB%0A-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_a_secret_of_one_line_with_a_key_inside_keeps_its_text(
    asking: Pipeline, admin: User, browse: Browse, secret: str
):
    entered = {"tag": "v2", "input.version": "v2", "input.color": "blue", "input.token": secret}
    assert browse(admin).post(f"/pipelines/{asking.pk}/run/", entered).status_code == 302
    assert Execution.objects.latest("created_at").secret_input_values == {"token": secret}


@pytest.mark.django_db
def test_a_run_without_what_is_asked_for_is_refused_before_anything_is_written(asking: Pipeline, admin: User):
    before = Execution.objects.count()
    with pytest.raises(BadInput) as refused:
        run_pipeline(actor=admin, pipeline=asking, inputs={"color": "red"})
    assert {error["path"] for error in refused.value.errors} == {
        "inputs.version",
        "inputs.color",
        "inputs.token",
    }
    assert Execution.objects.count() == before


@pytest.mark.django_db
def test_of_several_input_sets_the_last_one_wins_and_what_is_given_wins_over_all(
    asking: Pipeline, admin: User, browse: Browse
):
    client, sets = browse(admin), "/api/v1/input-sets"
    for name, inputs in (("one", {"version": "v1", "color": "green"}), ("two", {"version": "v2"})):
        body = {"pipeline": asking.pk, "identifier": name, "name": name, "inputs": inputs}
        assert client.post(sets, body, content_type="application/json").status_code == 201
    run = {"input_sets": ["one", "two"], "inputs": {"token": "hush-hush"}}
    address = f"/api/v1/pipelines/{asking.pk}/executions"
    creation = client.post(address, run, content_type="application/json")
    assert creation.status_code == 201
    assert Execution.objects.get(pk=creation.json()["id"]).inputs == {"version": "v2", "color": "green"}
    used = InputSet.objects.filter(runs=1).values_list("identifier", flat=True)
    assert set(used) == {"one", "two"}
    response = client.post(address, run | {"input_sets": ["one", "three"]}, content_type="application/json")
    assert response.json()["errors"][0]["path"] == "input_sets.1"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"token": "hush"}, "is a secret"),
        ({"other": 1}, "unknown variable"),
        ({"color": "red"}, "must be one"),
    ],
)
def test_an_input_set_keeps_only_what_the_pipeline_takes_and_no_secrets(
    asking: Pipeline, admin: User, inputs: dict[str, Any], message: str
):
    with pytest.raises(BadInput) as refused:
        create_input_set(
            actor=admin, pipeline=asking, identifier="mine", spec=InputSetSpec("Mine", inputs=inputs)
        )
    assert message in refused.value.errors[0]["message"]


@pytest.mark.django_db
def test_what_was_entered_for_a_run_is_kept_and_fills_in_the_next(
    asking: Pipeline, admin: User, browse: Browse
):
    client, address = browse(admin), f"/pipelines/{asking.pk}"
    form_inputs = {"input.version": "v3", "input.color": "green", "input.token": "hush-hush"}
    page_text = client.post(f"{address}/input-sets/new/", form_inputs | {"from_run": "1"}).content.decode()
    assert 'value="v3"' in page_text
    assert "hush-hush" not in page_text
    assert client.post(f"{address}/input-sets/new/", form_inputs | {"name": "Spring"}).status_code == 302
    input_set = InputSet.objects.get(identifier="spring")
    assert input_set.inputs == {"version": "v3", "color": "green"}
    run = client.get(f"{address}/run/?set=spring").content.decode()
    assert 'value="v3"' in run
    assert '<option value="green" selected>' in run
    wrong = {"name": "Spring", "version": input_set.version, "input.version": "3"}
    refused = client.post(f"{address}/input-sets/{input_set.pk}/edit/", wrong)
    assert refused.status_code == 400
    assert "must match the pattern" in refused.content.decode()
    started = client.post(f"{address}/run/", form_inputs | {"tag": "v2", "set": "spring"})
    assert started.status_code == 302
    going = client.get(f"{address}/input-sets/{input_set.pk}/delete/").content.decode()
    assert "Used by 1 run" in going
    assert client.post(f"{address}/input-sets/{input_set.pk}/delete/").status_code == 302
    assert not InputSet.objects.filter(pk=input_set.pk).exists()


@pytest.mark.django_db
def test_the_plain_variables_of_a_chosen_input_set_are_shown_and_used(
    asking: Pipeline, admin: User, browse: Browse
):
    asking.yaml = asking.yaml.replace("  variables:\n", "  variables:\n    count: 3\n    region: eu\n", 1)
    asking.save(update_fields=["yaml"])
    spec = InputSetSpec("Spring", inputs={"version": "v1", "count": 5})
    create_input_set(actor=admin, pipeline=asking, identifier="spring", spec=spec)
    client, address = browse(admin), f"/pipelines/{asking.pk}"
    assert 'name="input.count"' not in client.get(f"{address}/run/").content.decode()
    page = client.get(f"{address}/run/?set=spring").content.decode()
    assert 'name="input.count" value="5"' in page
    assert 'name="input.region"' not in page
    entered = {
        "tag": "v2",
        "set": "spring",
        "input.version": "v1",
        "input.count": "5",
        "input.token": "hush-hush",
    }
    for path in ("run/plan", "preview"):
        shown = client.post(f"{address}/{path}/", entered)
        assert shown.status_code == 200
        assert shown.context["form"].current_inputs()["count"] == 5
    assert client.post(f"{address}/run/", entered).status_code == 302
    assert Execution.objects.latest("created_at").inputs == {"version": "v1", "count": 5}


@pytest.mark.django_db
def test_choosing_input_sets_keeps_what_was_entered(asking: Pipeline, admin: User, browse: Browse):
    for name, inputs in (("spring", {"version": "v1"}), ("may", {"color": "green"})):
        spec = InputSetSpec(name, inputs=inputs)
        create_input_set(actor=admin, pipeline=asking, identifier=name, spec=spec)
    client, address, before = browse(admin), f"/pipelines/{asking.pk}/run/", Execution.objects.count()
    entered = {"tag": "v7", "input.version": "v3", "input.color": "blue", "input.token": "hush-hush"}
    assert 'name="apply_sets"' in client.get(address).content.decode()
    choice = {"apply_sets": "1", "chosen_set": ["spring"]}
    form = client.post(address, entered | choice).context["form"]
    assert (form["tag"].value(), form.chosen) == ("v7", ["spring"])
    assert form.current_inputs() == {"version": "v1", "color": "blue"}
    choice = {"apply_sets": "1", "set": ["spring"], "chosen_set": ["may"]}
    form = client.post(address, entered | {"input.version": "v1"} | choice).context["form"]
    assert (form["tag"].value(), form.chosen) == ("v7", ["may"])
    assert form.current_inputs() == {"color": "green"}
    assert Execution.objects.count() == before


@pytest.mark.django_db
def test_the_error_of_an_input_is_read_out_with_its_field(asking: Pipeline, admin: User, browse: Browse):
    entered = {"name": "Spring", "tag": "v2", "input.version": "3", "input.token": "hush-hush"}
    for page in ("run", "preview", "input-sets/new"):
        text = browse(admin).post(f"/pipelines/{asking.pk}/{page}/", entered).content.decode()
        assert 'aria-describedby="input-version-error input-version-help" aria-invalid="true"' in text, page
        assert '<p class="error" id="input-version-error">must match the pattern' in text, page
        assert 'aria-describedby="input-color-help"' in text, page


@pytest.mark.django_db
def test_what_an_edit_changes_is_shown_before_and_nobody_overrides_unseen(
    asking: Pipeline, admin: User, browse: Browse
):
    spec = InputSetSpec("Spring", inputs={"version": "v1"})
    input_set = create_input_set(actor=admin, pipeline=asking, identifier="spring", spec=spec)
    client, address = browse(admin), f"/pipelines/{asking.pk}/input-sets/{input_set.pk}/edit/"
    data = {"name": "Spring", "version": 1, "input.version": "v2"}
    preview = client.post(address, data | {"review": "1"}).content.decode()
    assert "Changes to save" in preview
    assert "version: v2" in preview
    assert client.post(address, data | {"review": "1", "input.version": "2"}).status_code == 400
    input_set.refresh_from_db()
    assert (input_set.version, input_set.inputs) == (1, {"version": "v1"})
    assert client.post(address, data | {"input.version": "v3"}).status_code == 302
    refused = client.post(address, data)
    assert refused.status_code == 409
    assert "version: v3" in refused.content.decode()
    assert 'value="v2"' in refused.content.decode()
    assert client.post(address, data | {"version": 2}).status_code == 302
    input_set.refresh_from_db()
    assert input_set.inputs == {"version": "v2"}


@pytest.mark.parametrize("text", ["0.00001", "-0.0000001", "100000000000000.5", "7"])
def test_a_form_reads_the_number_that_it_shows(text: str) -> None:
    variable = PipelineVariable("rate", NUMBER)
    value = variable.parse_value(text)
    assert variable.describe_problem(value) == ""
    assert variable.parse_value(format_variable_value(value)) == value
