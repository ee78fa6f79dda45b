"""Projects of ecspresso become a service and a pipeline, and what has no equal is named with its line."""

import json
from typing import Any

import pytest
import yaml

from catalog.manifests.documents import parse_manifest
from pipelines.definition.parser import parse_pipeline
from pipelines.imports.proposals import ImportProposal, build_proposal
from pipelines.imports.source_files import ImportRefused
from tests.pipelines.imports.sample_projects import (
    BALANCER,
    ECSPRESSO_CONFIG,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    ecspresso_files,
    import_spec,
)


def propose(files: dict[str, str], **more: Any) -> ImportProposal:
    return build_proposal(import_spec(files, **more))


def refusal(files: dict[str, str], **more: Any) -> list[str]:
    with pytest.raises(ImportRefused) as refused:
        propose(files, **more)
    return [error["message"] for error in refused.value.errors]


def manifest(proposal: ImportProposal, number: int) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(proposal.service.manifests[number].content)
    return content


def test_a_project_becomes_a_service_with_a_rolling_pipeline() -> None:
    proposal = propose(ecspresso_files())
    assert (proposal.identifier, proposal.region, proposal.cluster) == ("shop", "us-east-1", "demo")
    assert proposal.infrastructure == "demo"
    service = manifest(proposal, 1)
    assert (service["serviceName"], service["desiredCount"]) == ("shop", 1)
    pipeline = parse_pipeline(proposal.pipeline)
    assert pipeline.identifier == "deploy_shop"
    [step] = pipeline.stages[0].steps
    assert (step.type, step.timeout_seconds) == ("EcsRollingDeploy", 300)
    assert [step.type for step in pipeline.stages[0].rollback_steps] == ["EcsRollingRollback"]


def test_the_tag_of_the_image_is_chosen_at_each_run() -> None:
    proposal = propose(ecspresso_files())
    assert (proposal.service.image, proposal.service.tag) == ("nginx", "latest")
    assert manifest(proposal, 0)["containerDefinitions"][0]["image"] == "<+primary.artifact.image>"
    assert any("instead of IMAGE_TAG" in notice.message for notice in proposal.notices)
    assert propose(ecspresso_files(), values={"IMAGE_TAG": "1.28"}).service.tag == "1.28"


def test_a_default_becomes_a_variable_of_the_service_and_a_required_one_an_input() -> None:
    proposal = propose(ecspresso_files())
    environment = manifest(proposal, 0)["containerDefinitions"][0]["environment"]
    assert [row["value"] for row in environment] == [
        "<+serviceVariables.COLOR>",
        "<+pipeline.variables.STAGE>",
    ]
    assert proposal.service.variables == {"COLOR": "blue"}
    assert yaml.safe_load(proposal.pipeline)["pipeline"]["variables"] == {"STAGE": "<+input>"}


def test_an_entered_value_replaces_default_and_input() -> None:
    proposal = propose(ecspresso_files(), values={"COLOR": "green", "STAGE": "prod"})
    assert proposal.service.variables == {"COLOR": "green", "STAGE": "prod"}
    assert "variables" not in yaml.safe_load(proposal.pipeline)["pipeline"]


def test_an_unquoted_number_may_be_a_variable() -> None:
    text = json.dumps(SERVICE_DEFINITION).replace('"desiredCount": 1', '"desiredCount": {{ env "N" "2" }}')
    proposal = propose(ecspresso_files(service=text))
    assert manifest(proposal, 1)["desiredCount"] == "<+serviceVariables.N>"
    assert proposal.service.variables["N"] == "2"


@pytest.mark.parametrize("text", ["12e34567", "1234e56", "0o17"])
def test_a_text_that_looks_like_a_number_stays_a_text(text: str) -> None:
    definition = json.loads(json.dumps(TASK_DEFINITION))
    definition["containerDefinitions"][0]["environment"] = [{"name": "COMMIT", "value": text}]
    proposal = propose(ecspresso_files(task=json.dumps(definition)))
    content = parse_manifest(proposal.service.manifests[0].content, "task definition").value
    assert content["containerDefinitions"][0]["environment"] == [{"name": "COMMIT", "value": text}]


def test_a_configuration_in_json_and_in_a_folder_is_read() -> None:
    files = ecspresso_files()
    config = yaml.safe_load(files.pop("ecspresso.yml"))
    moved = {f"deploy/{name}": text for name, text in files.items()}
    moved["deploy/ecspresso.json"] = json.dumps({**config, "task_definition": "./ecs-task-def.json"})
    assert propose(moved).identifier == "shop"


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ tfstate `aws_iam_role.task.arn` }}", "tfstate"),
        ("{{ ssm `/shop/role` }}", "ssm"),
        ("{{ secretsmanager_arn `shop` }}", "secretsmanager_arn"),
        ("{{ if eq 1 1 }}", "if"),
        ("{{ env `A` `b` | json_escape }}", "env"),
        ("{{- range . -}}", "range"),
    ],
)
def test_a_template_function_of_a_plugin_is_refused_with_name_line_and_the_way_out(
    template: str, name: str
) -> None:
    text = json.dumps({**TASK_DEFINITION, "executionRoleArn": template}, indent=2)
    [message] = refusal(ecspresso_files(task=text))
    line = next(number for number, row in enumerate(text.splitlines(), start=1) if template in row)
    assert message.startswith(f"ecs-task-def.json, line {line}: the template function {name} ")
    assert "`ecspresso render taskdef`" in message


def test_settings_without_an_equal_are_listed_with_their_lines() -> None:
    config = f"{ECSPRESSO_CONFIG}plugins:\n  - name: tfstate\nignore: {{tags: [Env]}}\nsurprise: 1\n"
    notices = {notice.line: notice.message for notice in propose(ecspresso_files(config=config)).notices}
    assert [notices[line].partition(":")[0] for line in (7, 9, 10)] == ["plugins", "ignore", "surprise"]


def test_a_service_of_codedeploy_is_deployed_by_blue_green() -> None:
    definition = {
        **SERVICE_DEFINITION,
        "deploymentController": {"type": "CODE_DEPLOY"},
        "loadBalancers": [BALANCER],
    }
    proposal = propose(ecspresso_files(service=json.dumps(definition)))
    service = manifest(proposal, 1)
    assert "deploymentController" not in service
    assert service["loadBalancers"][0]["targetGroupArn"] == "<+targetGroupArn>"
    pipeline = parse_pipeline(proposal.pipeline)
    assert [step.type for step in pipeline.stages[0].steps] == [
        "EcsBlueGreenCreateService",
        "EcsBlueGreenSwapTargetGroups",
    ]
    assert {"prodListener", "stageListener"} <= {variable.name for variable in pipeline.variables}


def test_a_strategy_of_ecs_itself_is_deployed_by_the_native_step() -> None:
    configuration = {"strategy": "BLUE_GREEN", "bakeTimeInMinutes": 5}
    balancer = {
        **BALANCER,
        "advancedConfiguration": {
            "alternateTargetGroupArn": f"{BALANCER['targetGroupArn']}2",
            "productionListenerRule": BALANCER["targetGroupArn"].replace("targetgroup", "listener-rule"),
            "roleArn": "arn:aws:iam::123456789012:role/ecsInfrastructure",
        },
    }
    definition = {
        **SERVICE_DEFINITION,
        "deploymentConfiguration": configuration,
        "loadBalancers": [balancer],
    }
    pipeline = parse_pipeline(propose(ecspresso_files(service=json.dumps(definition))).pipeline)
    assert [step.type for step in pipeline.stages[0].steps] == ["EcsNativeDeploy"]


@pytest.mark.parametrize(
    "reference", ["../secrets.json", "/etc/passwd", "a/../../x.json", "..\\x.json", "", "[1]", "~\x00"]
)
def test_a_reference_out_of_the_folder_is_refused(reference: str) -> None:
    config = ECSPRESSO_CONFIG.replace("ecs-task-def.json", json.dumps(reference))
    assert any(
        "task_definition" in message or "NUL" in message
        for message in refusal(ecspresso_files(config=config))
    )


@pytest.mark.parametrize(
    "name", ["../ecspresso.yml", "/ecspresso.yml", "a/../../b.yml", "a\nb", "", "x" * 300]
)
def test_a_file_name_out_of_the_folder_is_refused(name: str) -> None:
    assert refusal({**ecspresso_files(), name: "a: 1"})


def test_jsonnet_is_refused_with_the_command_that_renders_it() -> None:
    assert "ecspresso render config" in refusal({"ecspresso.jsonnet": "{}"})[0]
    config = ECSPRESSO_CONFIG.replace("ecs-task-def.json", "ecs-task-def.jsonnet")
    assert "line 5" in refusal(ecspresso_files(config=config))[0]


def test_an_expression_in_a_file_is_refused() -> None:
    text = json.dumps({**TASK_DEFINITION, "family": '<+secrets.getValue("account.key")>'}, indent=2)
    assert "line 2: contains <+" in refusal(ecspresso_files(task=text))[0]
    config = ECSPRESSO_CONFIG.replace("demo", "{{ env `X` `<+secrets.key>` }}")
    assert "contains <+" in refusal(ecspresso_files(config=config))[0]


def test_a_template_in_a_key_is_refused() -> None:
    text = json.dumps({**TASK_DEFINITION, "tags": [{"{{ env `A` `key` }}": "x"}]})
    assert "stands in a key" in refusal(ecspresso_files(task=text))[0]


def test_a_value_that_the_import_needs_must_be_known() -> None:
    config = ECSPRESSO_CONFIG.replace("us-east-1", "{{ must_env `AWS_REGION` }}")
    assert "line 1: AWS_REGION is needed" in refusal(ecspresso_files(config=config))[0]
    values = {"AWS_REGION": "eu-central-1"}
    assert propose(ecspresso_files(config=config), values=values).region == "eu-central-1"


def test_the_name_of_the_service_may_be_a_variable_with_a_value() -> None:
    text = json.dumps({**SERVICE_DEFINITION, "serviceName": "shop-{{ env `STAGE` `dev` }}"})
    proposal = propose(ecspresso_files(service=text))
    assert (proposal.identifier, manifest(proposal, 1)["serviceName"]) == ("shop_dev", "shop-dev")


def test_a_malformed_configuration_of_codedeploy_is_refused() -> None:
    definition = {
        **SERVICE_DEFINITION,
        "deploymentController": {"type": "CODE_DEPLOY"},
        "loadBalancers": [BALANCER],
        "deploymentConfiguration": "maximumPercent=200",
    }
    assert refusal(ecspresso_files(service=json.dumps(definition)))


def test_two_defaults_of_one_variable_are_refused() -> None:
    text = json.dumps({**TASK_DEFINITION, "family": "{{ env `COLOR` `red` }}"})
    assert "COLOR has another default" in refusal(ecspresso_files(task=text))[0]


def test_a_definition_that_aws_would_refuse_is_refused_with_its_line() -> None:
    definition = {**SERVICE_DEFINITION, "networkConfiguration": {"awsvpcConfiguration": {"subnet": []}}}
    messages = refusal(ecspresso_files(service=json.dumps(definition, indent=2)))
    assert all(message.startswith("ecs-service-def.json, line ") for message in messages)
    assert any("subnet" in message for message in messages)


def test_a_project_without_a_service_is_refused() -> None:
    config = ECSPRESSO_CONFIG.replace("service_definition: ecs-service-def.json\n", "")
    assert "Run Task" in refusal(ecspresso_files(config=config))[0]


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
        + "".join(f"d{n}: [*c, *c]\n" for n in range(20_000)),
        "{" * 50_000,
        "{{" * 100_000,
        "{{ env `A` `b` }}" * 25_000,
        "[" * 100,
        "!!python/object/apply:os.system [id]",
        "task_definition: {{ `",
    ],
)
def test_hostile_text_is_refused_at_once(text: str) -> None:
    assert refusal(ecspresso_files(config=f"task_definition: x\n{text}"))
    assert refusal(ecspresso_files(task=text))


def test_too_much_is_refused() -> None:
    assert "at most 20" in refusal({f"{number}.json": "{}" for number in range(21)})[0]
    assert "512 KiB" in refusal({"ecspresso.yml": "é" * 300_000})[0]
    assert refusal({})
