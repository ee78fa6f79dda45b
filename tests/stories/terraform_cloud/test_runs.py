"""Runs of Terraform Cloud: what is planned is applied, told line by line, and handed on."""

import pytest

from connectors.models import Connector
from connectors.operations import create_secret, delete_connector
from connectors.required_access import MissingAccess
from connectors.usages import find_usages
from deployments.models import AwsCall, StepExecution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from pipelines.operations.pipelines import PipelineNotRunnable
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.permissions import PERMISSIONS
from tests.deployments.engine.conftest import Write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person
from tests.fixtures.terraform_cloud import FINAL, TOKEN, Output, PretendRun, TerraformCloudServer
from tests.secret_watch.marker import planted
from tests.stories.terraform_cloud.conftest import BACK, run_step, terraform_connector, text_of
from web.http.problems import ResourceInUse

pytestmark = pytest.mark.django_db(transaction=True)


def secret(identifier: str, value: str) -> None:
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    create_secret(actor=admin, scope=scope, identifier=identifier, name=identifier, value=value)


def outputs_of(execution: object, step: str = "provision") -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, identifier=step)


def test_a_run_is_planned_applied_and_its_outputs_are_known(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.outputs = [
        Output("cluster_name", "shop"),
        Output("zones", ["a", "b"]),
        Output("password", planted("s3cr3t-of-the-state"), is_sensitive=True),
    ]
    later = (
        "- step: {identifier: pause, type: Wait, spec: {duration: <+steps.provision.output.cluster_name>}}\n"
    )
    execution = ready(text_of(run_step(), later.replace("cluster_name", "time"))).start()
    terraform_cloud.outputs.append(Output("time", "3s"))
    drive.until_over(execution)
    assert execution.status == "SUCCESS", (execution.failure, drive.log(execution))
    step = outputs_of(execution)
    assert step.outputs["cluster_name"] == "shop"
    assert step.outputs["zones"] == '["a", "b"]'
    assert step.outputs["password"] == "•••"
    assert step.all_outputs["password"] == planted("s3cr3t-of-the-state")
    assert (step.outputs["planStatus"], step.outputs["resourcesToAdd"]) == ("CHANGES", 1)
    lines = drive.log(execution)
    for line in (
        "aws_ecs_cluster.main will be created",
        "Apply complete! Resources: 1 added.",
        "Plan: 1 to add.",
    ):
        assert lines.count(line) == 1, lines
    assert "Output password = (sensitive)" in lines
    assert len(terraform_cloud.sent("POST", "^runs$")) == 1
    texts = "".join(call.parameters + str(call.preview) + call.result for call in AwsCall.objects.all())
    assert TOKEN not in texts
    logs = [headers for verb, _, _, headers in terraform_cloud.requests if verb == "LOG"]
    assert logs
    assert not any("Authorization" in headers for headers in logs)


def test_what_is_asked_for_is_what_the_run_is_made_with(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    secret("db", planted("hunter2hunter2"))
    terraform_cloud.plan_log = f"\x02password = {planted('hunter2hunter2')}\n\x03"
    variables = (
        "[{name: of, value: 'the <+service.name>'}, "
        "{name: tok, value: '<+secrets.getValue(\"db\")>'}, {name: size, value: 3}, "
        "{name: region, value: 'a \"b\" ${c}'}, "
        "{name: zones, type: Hcl, value: '[\"a\"]'}, {name: db, type: Secret, value: db}]"
    )
    fields = f"runMessage: Network, targets: [aws_vpc.main], variables: {variables}"
    execution = ready(text_of(run_step(fields))).run()
    assert execution.status == "SUCCESS", execution.failure
    (request,) = terraform_cloud.sent("POST", "^runs$")
    attributes = request["data"]["attributes"]
    assert attributes["message"].startswith("Network [Slipway ")
    assert attributes["target-addrs"] == ["aws_vpc.main"]
    assert {variable["key"]: variable["value"] for variable in attributes["variables"]} == {
        "region": r'"a \"b\" $${c}"',
        "of": '"the My app"',
        "tok": f'"{planted("hunter2hunter2")}"',
        "size": "3",
        "zones": '["a"]',
        "db": f'"{planted("hunter2hunter2")}"',
    }
    text = "\n".join(drive.log(execution))
    assert "password = •••" in text
    assert "Variable db is a secret" in text
    calls = AwsCall.objects.filter(execution=execution)
    assert "hunter2" not in "".join(call.parameters + str(call.preview) + call.result for call in calls)


@pytest.mark.parametrize(
    ("run_type", "attributes"),
    [
        ("RefreshState", {"refresh-only": True, "is-destroy": False, "plan-only": False}),
        ("PlanAndDestroy", {"refresh-only": False, "is-destroy": True, "plan-only": False}),
        ("PlanOnly", {"refresh-only": False, "is-destroy": False, "plan-only": True}),
    ],
)
def test_each_type_of_run_is_the_run_that_it_names(
    ready: Write, terraform_cloud: TerraformCloudServer, run_type: str, attributes: dict[str, bool]
) -> None:
    execution = ready(text_of(run_step(run_type=run_type))).run()
    assert execution.status == "SUCCESS", execution.failure
    (request,) = terraform_cloud.sent("POST", "^runs$")
    assert request["data"]["attributes"].items() >= attributes.items()
    assert bool(terraform_cloud.sent("POST", "/apply$")) == (run_type != "PlanOnly")


def test_a_plan_is_applied_by_a_later_step_with_what_its_plan_would_change(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.outputs = [Output("cluster_name", "shop")]
    apply = run_step("provisionerIdentifier: net", "apply", "Apply")
    plan = run_step("provisionerIdentifier: net", "plan", "Plan")
    execution = ready(text_of(plan, apply)).run()
    assert execution.status == "SUCCESS", execution.failure
    assert len(terraform_cloud.runs) == 1
    assert terraform_cloud.newest().status == "applied"
    assert outputs_of(execution, "plan").outputs["resourcesToAdd"] == 1
    assert outputs_of(execution, "apply").outputs["cluster_name"] == "shop"


def test_a_run_that_is_still_being_planned_is_confirmed_once_it_is(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    left = ["planning", "planned", "cost_estimating", "policy_checking", "policy_checked"]
    terraform_cloud.runs.append(PretendRun("run-1", "push", left))
    spec = "{runType: Apply, connectorRef: terraform, runId: run-1}"
    execution = ready(
        text_of(f"- step: {{identifier: apply, type: TerraformCloudRun, spec: {spec}}}\n")
    ).start()
    drive.until_over(execution)
    assert execution.status == "SUCCESS", (execution.failure, drive.log(execution))
    assert terraform_cloud.newest().status == "applied"
    assert len(terraform_cloud.sent("POST", "apply$")) == 1


def test_a_plan_of_another_provisioner_is_not_applied(
    ready: Write, terraform_cloud: TerraformCloudServer
) -> None:
    plan = run_step("provisionerIdentifier: net", "plan", "Plan")
    apply = run_step("provisionerIdentifier: data", "apply", "Apply")
    execution = ready(text_of(plan, apply)).run()
    assert execution.failure is not None
    assert execution.failure["code"] == "NO_PLAN"
    assert not terraform_cloud.sent("POST", "/apply$")


def test_where_nothing_changes_nothing_is_applied(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.plan, terraform_cloud.has_state = "nothing", True
    terraform_cloud.outputs = [Output("cluster_name", "shop")]
    execution = ready(text_of(run_step())).run()
    assert execution.status == "SUCCESS", execution.failure
    outputs = outputs_of(execution).outputs
    assert (outputs["planStatus"], outputs["applyStatus"], outputs["cluster_name"]) == (
        "NO_CHANGES",
        "NOTHING_TO_APPLY",
        "shop",
    )
    assert not terraform_cloud.sent("POST", "/apply$")


def test_all_pages_of_outputs_are_read(ready: Write, terraform_cloud: TerraformCloudServer) -> None:
    terraform_cloud.page = 2
    terraform_cloud.outputs = [Output(f"name_{number}", number) for number in range(5)]
    execution = ready(text_of(run_step())).run()
    outputs = outputs_of(execution).outputs
    assert [outputs[f"name_{number}"] for number in range(5)] == ["0", "1", "2", "3", "4"]


def test_runs_that_wait_for_nobody_are_discarded_where_that_is_wanted(
    ready: Write, terraform_cloud: TerraformCloudServer
) -> None:
    waiting = PretendRun("run-old", "of yesterday", [], "policy_checked")
    terraform_cloud.runs.append(waiting)
    execution = ready(text_of(run_step("discardPendingRuns: true"))).run()
    assert execution.status == "SUCCESS", execution.failure
    assert waiting.status == "discarded"


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"plan": "error"}, "TERRAFORM_FAILED", "The plan of run run-1 ended with an error"),
        ({"apply": "error"}, "TERRAFORM_FAILED", "The apply of run run-1 ended with an error"),
        ({"plan": "policy"}, "POLICY_FAILED", "broke a policy that may be overridden: cost/at-most-100"),
        ({"mode": "local"}, "WORKSPACE_IS_LOCAL", "Workspace acme/network only keeps state"),
    ],
)
def test_a_run_that_cannot_go_on_fails_the_step_and_is_not_left_open(
    ready: Write, terraform_cloud: TerraformCloudServer, change: dict[str, str], code: str, message: str
) -> None:
    for name, value in change.items():
        setattr(terraform_cloud, name, value)
    execution = ready(text_of(run_step()).replace(BACK, "")).run()
    assert execution.failure is not None
    assert execution.failure["code"] == code
    assert message in execution.failure["message"]
    assert all(run.status in FINAL for run in terraform_cloud.runs)


def test_soft_policies_are_overridden_where_the_step_says_so(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.plan = "policy"
    execution = ready(text_of(run_step("overridePolicies: true"))).run()
    assert execution.status == "SUCCESS", execution.failure
    assert terraform_cloud.newest().status == "applied"
    assert "Policy check polchk-run-1 is overridden" in drive.log(execution)


def test_a_token_that_is_not_accepted_fails_the_step_at_once(
    write: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_connector(terraform_cloud.url, planted("an-old-token"))
    prepared = write(text_of(run_step()))
    prepared.deployer = User.objects.get(username="admin")
    execution = prepared.run()
    assert execution.failure is not None
    assert execution.failure["code"] == "TOKEN_REFUSED"


def test_a_workspace_that_the_token_does_not_see_is_named(ready: Write) -> None:
    execution = ready(text_of(run_step().replace("network", "netwrok"))).run()
    assert execution.failure is not None
    assert execution.failure["code"] == "NOT_FOUND"
    assert "the workspace netwrok" in execution.failure["message"]


def test_a_hostile_log_is_told_line_by_line_and_harms_nobody(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.plan_log = (
        '\x02\x1b]0;title\x07\x1b[31mred\x1b[0m and \x00 nul\n{"@message": 7}\n{not json\n<b>bold</b>\n'
        + "{" * 3000
        + "\n"
        + "x" * 90_000
        + '\n{"@level":"error","@message":"Error: no such subnet","diagnostic":{"detail":"one\\ntwo"}}\nlast'
    )
    execution = ready(text_of(run_step())).run()
    assert execution.status == "SUCCESS", execution.failure
    lines = drive.log(execution)
    for line in ("<b>bold</b>", "{not json", "7", "Error: no such subnet", "one", "two", "last"):
        assert line in lines
    assert any("red" in line and "nul" in line for line in lines)
    assert not any("\x00" in line or "\x07" in line for line in lines)


def test_a_log_that_lies_elsewhere_is_not_asked_for(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.log_host = "http://169.254.169.254"
    execution = ready(text_of(run_step())).run()
    assert execution.status == "SUCCESS", execution.failure
    lines = [line for line in drive.log(execution) if "cannot be read" in line]
    assert lines
    assert "169.254.169.254, which is not Terraform Cloud" in lines[0]


@pytest.mark.parametrize(
    ("fields", "run_type", "message"),
    [
        ("planType: Both", "PlanAndApply", "planType is Apply or Destroy"),
        ("", "Destroy", "runType is one of RefreshState"),
        ("variables: [{name: 'a b'}]", "PlanAndApply", "is not the name of a variable"),
        ("targets: [1]", "PlanAndApply", "targets is a list of addresses"),
        ("terraformVersion: 1.11.0", "PlanAndApply", "for PlanOnly alone"),
        ("spec: {organisation: a}", "PlanAndApply", "spec has no field organisation"),
        ("spec: {workspace: '../../x'}", "PlanAndApply", "workspace has letters"),
        ("spec: {connectorRef: <+pipeline.variables.which>}", "PlanAndApply", "is no reference"),
        (
            "variables: [{name: a, type: Secret, value: <+service.name>}]",
            "PlanAndApply",
            "No secret <+service",
        ),
        ("spec: <+pipeline.variables.which>", "PlanAndApply", "spec has fields, and is no expression"),
        ("spec: {connectorRef: other}", "PlanAndApply", "no Terraform Cloud connector other"),
        (
            "variables: [{name: a, type: Secret, value: nowhere}]",
            "PlanAndApply",
            "No secret nowhere",
        ),
    ],
)
def test_a_step_that_cannot_be_is_refused_when_saved(
    ready: Write, fields: str, run_type: str, message: str
) -> None:
    with pytest.raises(PipelineNotRunnable) as refused:
        ready(text_of(run_step(fields, run_type=run_type)))
    assert message in str(refused.value.errors)


def test_the_fields_may_stand_below_spec(ready: Write, terraform_cloud: TerraformCloudServer) -> None:
    inside = "{connectorRef: terraform, organization: acme, workspace: network, discardPendingRuns: false}"
    step = (
        f"- step: {{identifier: p, type: TerraformCloudRun, spec: {{runType: PlanOnly, spec: {inside}}}}}\n"
    )
    assert ready(text_of(step)).run().status == "SUCCESS"
    assert terraform_cloud.newest().attributes["plan-only"]


def test_who_may_not_use_the_connector_may_not_run_its_pipeline(ready: Write) -> None:
    prepared = ready(text_of(run_step()))
    person = prepared.deployer = make_person("somebody")
    project = Scope.objects.get(path="account/default/demo")
    role = Role.objects.create(scope=project, identifier="some", name="Some")
    role.set_permissions(set(PERMISSIONS) - {"core_connector_access"})
    RoleAssignment.objects.create(scope=project, role=role, user=person)
    with pytest.raises(MissingAccess, match="core_connector_access on the connector terraform in"):
        prepared.start()


def test_a_connector_says_which_pipelines_use_it_and_is_not_deleted(ready: Write) -> None:
    ready(text_of(run_step()))
    connector, admin = Connector.objects.get(identifier="terraform"), User.objects.get(username="admin")
    assert [usage.title for usage in find_usages(connector, admin).visible] == ["pipeline Flow"]
    with pytest.raises(ResourceInUse):
        delete_connector(actor=admin, connector=connector)


def test_a_preview_says_what_is_asked_for_and_asks_for_nothing(
    ready: Write, terraform_cloud: TerraformCloudServer
) -> None:
    drive = ready(text_of(run_step("", "plan", "Plan"), run_step("", "apply", "Apply")))
    details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.28")
    assert isinstance(details, PreviewDetails)
    plan, apply = details.steps
    assert plan.changes == ["Terraform Cloud is asked for a run in workspace acme/network."]
    assert apply.changes == ["The run that was planned is applied in Terraform Cloud."]
    assert (plan.failure, apply.failure) == (None, None)
    assert terraform_cloud.requests == []
