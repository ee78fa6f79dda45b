"""The agent takes from its environment what the spec put there, whatever the flavour."""

import shlex

import pytest
import yaml

from delegates.agent.settings import AgentSettings, build_proxy_variables, read_environment
from delegates.install import CaBundle, DelegateSpecFiles, SpecProxy, SpecRequest, write_spec
from delegates.install.documents import build_log_address
from tests.delegates.install.spec_variants import BASE, MATRIX, build_request, format_name


def read_variables(spec: DelegateSpecFiles, secret: str = "") -> dict[str, str]:
    """Return the environment of the container; ECS inserts the secrets."""
    (container,) = spec.task_definition["containerDefinitions"]
    values = {entry["name"]: entry["value"] for entry in container["environment"]}
    return values | {entry["name"]: secret for entry in container.get("secrets", [])}


def assert_is_base(settings: AgentSettings) -> None:
    assert settings.account_id == BASE.account_id
    assert settings.token == BASE.token
    assert settings.manager_url == BASE.manager_url
    assert settings.name == BASE.name
    assert settings.tags == BASE.tags
    assert settings.init_script == ""


@pytest.mark.parametrize("request_", MATRIX, ids=map(format_name, MATRIX))
def test_it_reads_the_task_s_environment(request_: SpecRequest) -> None:
    environ = read_variables(write_spec(request_), BASE.token)
    settings = read_environment(environ)
    assert_is_base(settings)
    assert settings.flavour == request_.flavour
    if request_.flavour == "legacy":
        assert environ["LOG_STREAMING_SERVICE_URL"] == build_log_address(BASE.manager_url)


@pytest.mark.parametrize("flavour", ["legacy", "v3"])
def test_it_reads_what_docker_run_and_the_compose_file_give_it(flavour: str) -> None:
    spec = write_spec(build_request(flavour, kind="DOCKER"))
    (run,) = [command.command for command in spec.list_commands("create")]
    arguments = shlex.split(run)
    variables = dict(
        arguments[index + 1].split("=", 1) for index, argument in enumerate(arguments) if argument == "--env"
    )
    assert_is_base(read_environment(variables))
    (service,) = yaml.safe_load(spec.files["compose.yaml"])["services"].values()
    assert service["environment"] == variables


@pytest.mark.parametrize("flavour", ["legacy", "v3"])
def test_a_task_is_on_ecs_whatever_the_documented_type_says(flavour: str) -> None:
    environ = read_variables(write_spec(build_request(flavour))) | {
        "ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/x"
    }
    assert read_environment(environ).kind == "ECS"


def test_it_goes_through_the_proxy_and_around_it_to_its_neighbours() -> None:
    proxy = SpecProxy("proxy.example.com", 8443, "https", "me", "p@ss word", ("10.0.0.0/8",))
    proxy_variables = build_proxy_variables(read_variables(write_spec(build_request(proxy=proxy))))
    assert proxy_variables["HTTPS_PROXY"] == "https://me:p%40ss%20word@proxy.example.com:8443"
    direct_addresses = proxy_variables["NO_PROXY"].split(",")
    assert {"10.0.0.0/8", "169.254.170.2", "169.254.169.254"} <= set(direct_addresses)


def test_it_trusts_the_certificates_where_the_host_s_file_is_mounted() -> None:
    ca = CaBundle("/etc/slipway/ca.pem", "/opt/ca/company.pem")
    spec = write_spec(build_request("v3", "EC2", ca=ca))
    assert read_variables(spec)["SLIPWAY_CA_BUNDLE"] == "/etc/slipway/ca.pem"
    (container,) = spec.task_definition["containerDefinitions"]
    (mount,) = container["mountPoints"]
    (volume,) = spec.task_definition["volumes"]
    assert (mount["containerPath"], mount["readOnly"]) == ("/etc/slipway/ca.pem", True)
    assert volume == {"name": mount["sourceVolume"], "host": {"sourcePath": "/opt/ca/company.pem"}}
    (run,) = [
        command.command for command in write_spec(build_request(kind="DOCKER", ca=ca)).list_commands("create")
    ]
    assert "--volume /opt/ca/company.pem:/etc/slipway/ca.pem:ro" in run


def test_fargate_mounts_no_file_of_a_host() -> None:
    spec = write_spec(build_request(ca=CaBundle("/etc/slipway/ca.pem", "/opt/ca/company.pem")))
    assert "volumes" not in spec.task_definition
    assert any("/etc/slipway/ca.pem" in warning for warning in spec.warnings)
