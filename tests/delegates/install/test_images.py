"""Images of delegates: what can be pulled, what may change, and the copy in the account's own registry."""

import shlex

import pytest

from delegates.install import lint_spec, write_spec
from delegates.install.images import build_ecr_registry, parse_image
from tests.delegates.install.spec_variants import ACCOUNT, build_request

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("slipway-delegate", ("", "slipway-delegate", "", "")),
        ("slipway-delegate:0.1.0", ("", "slipway-delegate", "0.1.0", "")),
        ("harness/delegate:25.1", ("", "harness/delegate", "25.1", "")),
        ("registry.example:5000/a/b:1@" + DIGEST, ("registry.example:5000", "a/b", "1", DIGEST)),
        ("localhost/delegate", ("localhost", "delegate", "", "")),
    ],
)
def test_a_reference_has_the_parts_that_docker_sees(reference: str, parts: tuple[str, ...]) -> None:
    image = parse_image(reference)
    assert (image.registry, image.repository, image.tag, image.digest) == parts


def test_only_a_name_without_registry_and_namespace_stays_on_its_machine() -> None:
    assert parse_image("slipway-delegate:1").is_local
    assert not parse_image("harness/delegate:1").is_local
    assert not parse_image("registry.example/slipway-delegate:1").is_local


@pytest.mark.parametrize(
    ("reference", "is_mutable"),
    [("a/b", True), ("a/b:latest", True), ("a/b:stable", True), ("a/b:1.2", False), (f"a/b@{DIGEST}", False)],
)
def test_a_name_without_version_may_mean_another_release(reference: str, is_mutable: bool) -> None:
    assert parse_image(reference).is_mutable is is_mutable


def test_a_registry_of_ecr_belongs_to_an_account_and_has_its_own_domain_in_china() -> None:
    for region, host in (
        ("eu-west-1", f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com"),
        ("cn-north-1", f"{ACCOUNT}.dkr.ecr.cn-north-1.amazonaws.com.cn"),
    ):
        assert build_ecr_registry(ACCOUNT, region) == host
        assert parse_image(f"{host}/slipway-delegate:1").ecr_account == ACCOUNT
    assert parse_image("ghcr.io/slipway-delegate:1").ecr_account == ""


def test_a_mirrored_image_is_copied_first_and_the_tasks_pull_the_copy() -> None:
    spec = write_spec(build_request(image="slipway-delegate:0.1.0", mirrors_image=True, region="cn-north-1"))
    registry = f"{ACCOUNT}.dkr.ecr.cn-north-1.amazonaws.com.cn"
    copy = f"{registry}/slipway-delegate:0.1.0"
    assert spec.task_definition["containerDefinitions"][0]["image"] == copy
    assert [command.command for command in spec.list_commands("mirror")] == [
        "aws ecr create-repository --repository-name slipway-delegate --image-tag-mutability IMMUTABLE"
        " --region cn-north-1",
        "aws ecr get-login-password --region cn-north-1"
        f" | docker login --username AWS --password-stdin {registry}",
        f"docker tag slipway-delegate:0.1.0 {copy}",
        f"docker push {copy}",
    ]
    assert any(copy in warning for warning in spec.warnings)


def test_an_image_of_another_registry_is_pulled_before_it_is_copied() -> None:
    source = f"registry.example.com/team/slipway-delegate@{DIGEST}"
    spec = write_spec(build_request(image=source, mirrors_image=True))
    commands = [shlex.split(command.command) for command in spec.list_commands("mirror")]
    assert ["docker", "pull", "--platform", "linux/amd64", source] in commands
    copy = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/team/slipway-delegate:0a0a0a0a0a0a"
    assert commands[-1] == ["docker", "push", copy]


def test_a_machine_with_docker_needs_no_mirror() -> None:
    spec = write_spec(build_request(kind="DOCKER", image="slipway-delegate:1", mirrors_image=True))
    assert not spec.list_commands("mirror")
    assert any("has no registry" in warning for warning in spec.warnings)


def test_the_warnings_name_images_that_change_and_registries_of_others() -> None:
    image = "210987654321.dkr.ecr.us-east-1.amazonaws.com/slipway-delegate:latest"
    warnings = " ".join(write_spec(build_request(image=image)).warnings)
    assert "names no version" in warnings
    assert "The image is in account 210987654321" in warnings


def test_the_linter_warns_of_images_and_addresses_that_do_not_work_elsewhere() -> None:
    spec = write_spec(build_request(image="slipway-delegate:latest", manager_url="http://localhost:8000"))
    findings = lint_spec(spec.task_definition, spec.service)
    assert all(finding.is_warning for finding in findings)
    assert [(finding.place, finding.message.partition(" ")[2]) for finding in findings] == [
        ("containerDefinitions[0].image", "has no registry, so that no task can pull it"),
        ("containerDefinitions[0].image", "names no version: a restart may start another release"),
        ("containerDefinitions[0].environment[2]", "is the address of the delegate's own host"),
    ]
