"""Templates: what is none is refused with its place, expressions become texts, and files serve them."""

from textwrap import indent

import pytest
import yaml

from catalog.manifests.cloudformation_templates import parse_template, render_template
from catalog.manifests.documents import BadDocument
from connectors.operations import save_file
from pipelines.operations.pipelines import PipelineNotRunnable, parse_valid_pipeline
from rbac.models import Scope, User
from tests.catalog.manifests.stores.conftest import create_git_connector
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.git import GitServer
from tests.fixtures.time_limits import run_within_cpu
from tests.stories.cloudformation.conftest import TEMPLATE, clusters, create_step

NOTHING = "Resources: {A: {Type: AWS::CloudFormation::WaitConditionHandle}}\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("- a\n- b\n", 1, "a mapping of keys to values"),
        ("just a text", 1, "a mapping of keys to values"),
        ("Description: none\n", 1, "Resources with at least one resource"),
        ("Resources:\n  A: [\n", 3, "cannot be parsed"),
        ("Resources: {}\n", 1, "Resources with at least one resource"),
        (f"{NOTHING}---\n{NOTHING}", 2, "one document"),
        ("Resources:\n  A: &a {Type: x}\n  B: *a\n", 2, "no anchors and aliases"),
        (f"{NOTHING}Metadata: \0", 2, "NUL"),
        (f"{NOTHING}Metadata: {'[' * 20_000}", 2, "deeper than"),
        (NOTHING + "#" * 60_000, 1, "50 KiB"),
    ],
)
def test_what_is_no_template_is_refused_with_its_place(text: str, line: int, message: str) -> None:
    def read() -> BadDocument:
        with pytest.raises(BadDocument) as refused:
            parse_template(text, "templateFile")
        return refused.value

    bad = run_within_cpu(1, read)
    assert (bad.line, bad.name) == (line, "templateFile")
    assert message in bad.message


def test_a_template_of_either_notation_shows_its_sections_and_outputs() -> None:
    read = parse_template(TEMPLATE, "t")
    assert list(read.value) == ["AWSTemplateFormatVersion", "Parameters", "Resources", "Outputs"]
    assert list(read.value["Outputs"]) == ["region_name", "cluster_name", "group"]
    json = '{"Resources": {"A": {"Type": "x"}}, "Outputs": {"o": {"Value": {"Ref": "A"}}}}'
    assert list(parse_template(json, "t").value["Outputs"]) == ["o"]


def test_a_template_without_expressions_is_sent_as_it_is_written() -> None:
    text = "# Ours.\nResources:   {A: {Type: x}}  # The end."
    assert render_template(text, lambda text: "never") == text


@pytest.mark.parametrize(
    "value", ["a: [b", '"}, Evil: {', "!Ref Secret", "line\nline: 2", "<+again>", "🚀 'ü'"]
)
def test_a_value_becomes_a_text_and_never_a_part_of_the_template(value: str) -> None:
    text = "Resources:\n  A: {Type: x, Name: <+v>, Said: !Sub 'is <+v>', Size: <+v>}\n"
    filled = render_template(text, lambda text: text.replace("<+v>", value))

    class Loader(yaml.SafeLoader):
        """Takes the tags of CloudFormation for texts."""

    Loader.add_multi_constructor("!", lambda loader, name, node: [name, node.value])
    read = yaml.load(filled, Loader)["Resources"]
    assert read == {"A": {"Type": "x", "Name": value, "Said": ["Sub", f"is {value}"], "Size": value}}


def _build_step(place: str) -> str:
    """The step with its template somewhere else."""
    inline = create_step()
    start, end = inline.index("        type: Inline"), inline.index("      parameters:")
    return inline[:start] + indent(place, " " * 8) + inline[end:]


@pytest.mark.parametrize("url", ["https://[x/a.yaml", "http://s3/a.yaml", "https:///a.yaml"])
def test_an_address_of_a_template_that_cannot_be_is_refused(url: str) -> None:
    step = f"- step: {{identifier: a, type: CreateStack, spec: {{stackName: a, templateUrl: '{url}'}}}}\n"
    with pytest.raises(PipelineNotRunnable) as refused:
        parse_valid_pipeline(pipeline_text(stage_text(step)))
    assert "templateUrl is an https URL" in str(refused.value.errors)


@pytest.mark.django_db(transaction=True)
def test_a_template_in_a_file_is_fetched_with_its_expressions_filled_in(write: Write, drive: Drive) -> None:
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    text = TEMPLATE.replace("{ClusterName: !Ref ClusterName}", "{ClusterName: <+env.identifier>-files}")
    save_file(actor=admin, scope=project, path="/stacks/shop.yaml", content=text)
    step = _build_step("type: FileStore\nspec: {files: [/stacks/shop.yaml]}\n")
    execution = write(pipeline_text(stage_text(step))).run()
    assert execution.status == "SUCCESS", execution.failure
    assert "dev-files" in clusters(drive)
    assert any("shop.yaml" in line for line in drive.log(execution))


@pytest.mark.django_db(transaction=True)
def test_a_template_in_a_repository_is_of_the_commit_that_is_newest_then(
    write: Write, drive: Drive, git_server: GitServer
) -> None:
    text = TEMPLATE.replace("{ClusterName: !Ref ClusterName}", "{ClusterName: <+env.identifier>-git}")
    commit = git_server.commit({"stacks/shop.yaml": text})
    create_git_connector(git_server.private_url, is_private=True)
    place = "type: Git\nspec: {connector: shop, branch: main, files: stacks/shop.yaml}\n"
    ready = write(pipeline_text(stage_text(_build_step(place))))
    execution = ready.run()
    assert execution.status == "SUCCESS", execution.failure
    assert "dev-git" in clusters(drive)
    assert f"Using commit {commit[:12]} of the branch main of shop" in drive.log(execution)
    git_server.commit({"stacks/shop.yaml": "Resources: [\n"})
    broken = ready.run()
    assert "stacks/shop.yaml, line" in str(broken.failure)


@pytest.mark.django_db(transaction=True)
def test_a_template_that_cannot_be_read_is_told_before_anything_runs(write: Write, drive: Drive) -> None:
    mark = drive.mark()
    with pytest.raises(PipelineNotRunnable) as refused:
        write(pipeline_text(stage_text(create_step("Resources: [\n")))).start()
    assert "templateFile" in str(refused.value.errors)
    assert drive.effects(mark) == []
