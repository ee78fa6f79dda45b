"""What the agent takes from its environment, and how it says what is wrong with it."""

import re
from pathlib import Path

import pytest

from delegates.agent.settings import (
    InvalidEnvironment,
    build_proxy_variables,
    configure_process_network,
    read_environment,
)
from tests.delegates.agent.certificates import Certificates

V3 = {
    "HARNESS_ACCOUNT_ID": "aPRgB2xQT1mPqkUvS2vXZw",
    "HARNESS_TOKEN": "slp_dlt_new",
    "HARNESS_URL": "https://slipway.example.com",
}
LEGACY = {
    "ACCOUNT_ID": "old-account",
    "DELEGATE_TOKEN": "slp_dlt_old",
    "MANAGER_HOST_AND_PORT": "https://old.example.com:8443",
    "DELEGATE_NAME": "harness-delegate-ecs",
    "DELEGATE_TYPE": "ECS",
    "INIT_SCRIPT": "echo hello",
}


def test_the_time_to_stop_is_a_setting() -> None:
    assert read_environment(V3).stop_seconds == 600
    assert read_environment(V3 | {"SLIPWAY_DELEGATE_STOP_SECONDS": "120"}).stop_seconds == 120
    with pytest.raises(InvalidEnvironment, match="SLIPWAY_DELEGATE_STOP_SECONDS"):
        read_environment(V3 | {"SLIPWAY_DELEGATE_STOP_SECONDS": "5"})


def test_three_variables_are_enough() -> None:
    settings = read_environment(V3)
    assert (settings.name, settings.tags, settings.flavour) == ("harness-delegate", (), "v3")
    assert (settings.capacity, settings.port, settings.uses_socket) == (10, 8080, True)


def test_the_older_family_is_understood() -> None:
    settings = read_environment(LEGACY)
    assert (settings.account_id, settings.token) == ("old-account", "slp_dlt_old")
    assert settings.manager_url == "https://old.example.com:8443"
    assert (settings.flavour, settings.kind, settings.init_script) == ("legacy", "ECS", "echo hello")


def test_the_newer_family_wins_where_both_are_set() -> None:
    settings = read_environment(LEGACY | V3 | {"HARNESS_NAME": "new", "HARNESS_TAGS": "aws, ecs ,,aws"})
    assert (settings.name, settings.token, settings.tags) == ("new", "slp_dlt_new", ("aws", "ecs"))


def test_the_page_of_the_agent_has_every_variable_that_it_reads() -> None:
    root = Path(__file__).resolve().parents[3]
    code = (root / "delegates/agent/settings.py").read_text()
    read_names = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', code)) - {"SHELL_SCRIPT"}
    page = (root / "docs/reference/delegate-settings.md").read_text()
    documented_names = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", page))
    assert read_names - documented_names - {"AWS_CA_BUNDLE", "SSL_CERT_FILE"} == set()


def test_a_token_is_not_printed_with_the_settings() -> None:
    assert "slp_dlt_new" not in repr(read_environment(V3))


@pytest.mark.parametrize("missing_name", V3)
def test_what_is_missing_is_named(missing_name: str) -> None:
    with pytest.raises(InvalidEnvironment, match=f"{missing_name} is not set"):
        read_environment({name: value for name, value in V3.items() if name != missing_name})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HARNESS_URL", "ftp://slipway.example.com"),
        ("HARNESS_URL", "https://slipway.example.com:port"),
        ("HARNESS_URL", "https://user@slipway.example.com"),
        ("HARNESS_TOKEN", "slp dlt"),
        ("DELEGATE_TYPE", "TOASTER"),
        ("SLIPWAY_DELEGATE_PORT", "65536"),
        ("SLIPWAY_DELEGATE_CAPACITY", "0"),
        ("SLIPWAY_DELEGATE_BLOCK_SHELL", "perhaps"),
        ("SLIPWAY_DELEGATE_HEARTBEAT", "nan"),
        ("SLIPWAY_DELEGATE_ALLOW_OPERATIONS", "GetObject"),
        ("SLIPWAY_DELEGATE_TOKEN_FILES", "token"),
        ("SLIPWAY_CA_BUNDLE", "/nowhere/ca.pem"),
    ],
)
def test_what_makes_no_sense_is_named(variable: str, value: str) -> None:
    with pytest.raises(InvalidEnvironment, match=variable):
        read_environment(V3 | {variable: value})


def test_an_address_without_a_scheme_is_https() -> None:
    assert read_environment(V3 | {"HARNESS_URL": "slipway.example.com:8443"}).manager_url == (
        "https://slipway.example.com:8443"
    )


def test_more_operations_may_be_allowed() -> None:
    allow = {"SLIPWAY_DELEGATE_ALLOW_OPERATIONS": "s3:GetObject, s3:ListObjectsV2"}
    assert read_environment(V3 | allow).allowed_operations == {"s3:GetObject", "s3:ListObjectsV2"}


def test_only_listed_token_files_and_the_own_one_may_be_named() -> None:
    assert read_environment(V3).token_files == frozenset()
    listed = {"SLIPWAY_DELEGATE_TOKEN_FILES": "/run/a, /run/b c"}
    own = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/run/own"}
    assert read_environment(V3 | listed | own).token_files == {"/run/a", "/run/b c", "/run/own"}


def test_home_is_absolute_wherever_the_program_starts() -> None:
    assert read_environment(V3).home == Path.cwd() / "slipway-delegate"


def test_the_parts_of_a_proxy_become_one_address() -> None:
    parts = {"PROXY_HOST": "proxy", "PROXY_PORT": "3128", "PROXY_USER": "me", "PROXY_PASSWORD": "a:b@c"}
    proxy_variables = build_proxy_variables(parts | {"NO_PROXY": "internal.example.com"})
    assert proxy_variables["HTTPS_PROXY"] == proxy_variables["HTTP_PROXY"] == "http://me:a%3Ab%40c@proxy:3128"
    assert proxy_variables["NO_PROXY"].split(",")[:3] == [
        "internal.example.com",
        "169.254.169.254",
        "169.254.170.2",
    ]


def test_a_proxy_that_is_already_set_stays() -> None:
    proxy_variables = build_proxy_variables({"PROXY_HOST": "proxy", "HTTPS_PROXY": "http://other:1"})
    assert "HTTPS_PROXY" not in proxy_variables


def test_without_a_proxy_nothing_changes() -> None:
    assert build_proxy_variables({"NO_PROXY": "x"}) == {}


@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"PROXY_PORT": "3128"}, "PROXY_HOST"),
        ({"PROXY_HOST": "p", "PROXY_PORT": "many"}, "PROXY_PORT"),
        ({"PROXY_HOST": "p", "PROXY_SCHEME": "socks5"}, "PROXY_SCHEME"),
    ],
)
def test_half_a_proxy_is_refused(variables: dict[str, str], variable: str) -> None:
    with pytest.raises(InvalidEnvironment, match=variable):
        build_proxy_variables(variables)


def test_certificates_come_as_text_too(certificates: Certificates, tmp_path: Path) -> None:
    text = certificates.authority.read_text()
    environ = {**V3, "SLIPWAY_CA_PEM": text.replace("\n", "\\n")}
    configure_process_network(environ, tmp_path, read_environment(environ).ca_bundle)
    assert text.strip() in Path(environ["SSL_CERT_FILE"]).read_text()
    with pytest.raises(InvalidEnvironment, match="PEM certificates"):
        configure_process_network(environ, tmp_path, "no certificate")
