"""Files for Docker Compose, Kubernetes and systemd: each as its own tool takes it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from delegates.install import DelegateSpecFiles, InvalidSpec, SpecProxy, list_likely_causes, write_spec
from delegates.install.platforms import PLATFORMS
from delegates.install.specs import SpecRequest
from tests.delegates.install.spec_variants import BASE, build_request

HOSTILE_TEXT = 'it\'s $HOME `id` "x" \\ $(A) é'
KINDS = ("COMPOSE", "KUBERNETES", "SHELL_SCRIPT")


def complete(kind: str, **values: Any) -> SpecRequest:
    return build_request(kind=kind, stop_seconds=120, cpu=512, memory_mib=2048, **values)


def write(kind: str, **values: Any) -> DelegateSpecFiles:
    return write_spec(complete(kind, **values))


def read_manifests(spec: DelegateSpecFiles) -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all(spec.files["harness-kubernetes.yaml"])
    return {document["kind"]: document for document in documents}


@pytest.mark.parametrize("kind", KINDS)
def test_the_token_is_in_one_file_and_in_no_command(kind: str) -> None:
    spec = write(kind)
    assert [text.count(BASE.token) for text in spec.files.values() if BASE.token in text] == [1]
    assert not any(BASE.token in command.command for command in spec.commands)
    assert {command.group for command in spec.commands} == {"create", "verify", "update", "diagnose"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_older_variable_names_are_for_ecs_and_docker(kind: str) -> None:
    with pytest.raises(InvalidSpec, match="for ECS and Docker"):
        write(kind, flavour="legacy")


@pytest.mark.parametrize("kind", PLATFORMS)
def test_a_silent_delegate_gets_the_commands_of_its_platform(kind: str) -> None:
    cause = list_likely_causes(complete(kind))[0]
    assert cause.title == PLATFORMS[kind].symptom  # type: ignore[index]
    assert cause.commands
    assert all(shlex.split(command.command)[0] != "aws" for command in cause.commands)


def test_compose_reads_the_token_from_a_file_and_keeps_the_key_pair() -> None:
    document = yaml.safe_load(write("COMPOSE").files["compose.yaml"])
    (service,) = document["services"].values()
    assert document["secrets"] == {"delegate-token": {"file": "./delegate-token.txt"}}
    assert document["volumes"] == {"home": {}}
    assert service["secrets"] == ["delegate-token"]
    assert service["volumes"] == ["home:/var/lib/slipway-delegate"]
    assert service["environment"]["HARNESS_TOKEN_FILE"] == "/run/secrets/delegate-token"
    assert "HARNESS_TOKEN" not in service["environment"]
    assert service["stop_grace_period"] == "120s"


def test_the_pods_of_a_stateful_set_are_the_instances_of_one_delegate() -> None:
    manifests = read_manifests(write("KUBERNETES", desired_count=2))
    assert list(manifests) == ["Namespace", "Secret", "ServiceAccount", "PodDisruptionBudget", "StatefulSet"]
    workload = manifests["StatefulSet"]
    # R027: the first six letters of the account ID.
    assert workload["metadata"]["name"] == "blue-delegate-qhzmyz"
    assert workload["spec"]["replicas"] == 2
    assert workload["spec"]["selector"]["matchLabels"] == workload["spec"]["template"]["metadata"]["labels"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    assert variables["HARNESS_NAME"]["value"] == "blue-delegate"
    assert (
        variables["HARNESS_TOKEN"]["valueFrom"]["secretKeyRef"]["name"]
        == (manifests["Secret"]["metadata"]["name"])
    )
    assert manifests["PodDisruptionBudget"]["spec"]["minAvailable"] == 1
    namespaces = {document["metadata"].get("namespace") for document in manifests.values()}
    assert namespaces == {None, "harness-delegate"}


@pytest.mark.parametrize("value", ["a$$b", "a$b", "$(A)", "a$$(A)", "$$$", HOSTILE_TEXT])
def test_kubernetes_expands_no_value(value: str) -> None:
    proxy = SpecProxy("proxy.internal", user="user", password=value)
    pod = read_manifests(write("KUBERNETES", proxy=proxy))["StatefulSet"]["spec"]["template"]["spec"]
    variables = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
    # Kubernetes makes one $ of every two, and expands $(NAME) where the $ is alone.
    pairs = re.split(r"(\$\$)", variables["PROXY_PASSWORD"])
    assert not any("$(" in part for part in pairs if part != "$$")
    assert "".join("$" if part == "$$" else part for part in pairs) == value


def test_pods_drain_are_not_root_and_are_ready_once_they_have_connected() -> None:
    pod = read_manifests(write("KUBERNETES"))["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] == 120
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["readinessProbe"]["httpGet"] == {"path": "/api/ready", "port": "health"}
    assert container["livenessProbe"]["httpGet"]["path"] == "/api/health"
    assert container["resources"]["limits"] == {"memory": "2048Mi"}


def test_names_suit_kubernetes_whatever_the_delegate_is_called() -> None:
    name = read_manifests(write("KUBERNETES", name="Größe_" + "x" * 90))["StatefulSet"]["metadata"]["name"]
    assert len(f"{name}-0") <= 63
    assert name == name.lower()
    assert name.replace("-", "").isalnum()


def test_a_role_of_an_eks_service_account_is_named() -> None:
    account = read_manifests(write("KUBERNETES", task_role="delegate"))["ServiceAccount"]
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].endswith(":role/delegate")


def test_the_environment_of_the_service_is_the_same_for_systemd_and_a_shell(tmp_path: Path) -> None:
    spec = write("SHELL_SCRIPT", proxy=SpecProxy("proxy.internal", user=HOSTILE_TEXT, password="p'w"))
    (tmp_path / "delegate.env").write_text(spec.files["delegate.env"], encoding="utf-8")
    print_all = "import json, os; print(json.dumps(dict(os.environ)))"
    ran = subprocess.run(
        ["sh", "-c", 'set -a; . ./delegate.env; exec "$0" -c "$1"', sys.executable, print_all],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    environment = json.loads(ran.stdout)
    expected = {
        "HARNESS_NAME": "blue-delegate",
        "PROXY_USER": HOSTILE_TEXT,
        "PROXY_PASSWORD": "p'w",
        "DELEGATE_TYPE": "SHELL_SCRIPT",
        "SLIPWAY_DELEGATE_STOP_SECONDS": "120",
    }
    assert {name: environment[name] for name in expected} == expected


def test_the_service_ends_when_the_agent_does() -> None:
    unit = write("SHELL_SCRIPT").files["slipway-delegate.service"]
    lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    assert lines["TimeoutStopSec"] == "120"
    assert lines["KillMode"] == "mixed"
    assert lines["MemoryMax"] == "2048M"
    assert lines["User"] == "slipway-delegate"
    assert lines["EnvironmentFile"] == "/etc/slipway-delegate/delegate.env"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "slipway-delegate.service"
    text = write("SHELL_SCRIPT").files[unit.name]
    unit.write_text(text.replace("/opt/slipway-delegate/bin/slipway-delegate", "/bin/true"))
    ran = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    problems = [line for line in ran.stderr.splitlines() if "slipway-delegate.service" in line]
    assert problems == []


def test_the_script_installs_and_upgrades_by_one_command() -> None:
    spec = write("SHELL_SCRIPT")
    (install,) = [c.command for c in spec.list_commands("create") if "install.sh" in c.command]
    assert install in [command.command for command in spec.list_commands("update")]
    subprocess.run(["sh", "-n"], input=spec.files["install.sh"], text=True, check=True)


def test_a_service_of_systemd_has_no_warnings_about_images_and_containers() -> None:
    values = {"image": "slipway-delegate:0.1.0", "manager_url": "http://127.0.0.1:8000"}
    texts = {kind: " ".join(write(kind, **values).warnings) for kind in ("DOCKER", "SHELL_SCRIPT")}
    assert "no container on it" in texts["DOCKER"]
    assert "has no registry" in texts["DOCKER"]
    assert "only this host reaches. Set PUBLIC_URL" in texts["SHELL_SCRIPT"]
    assert "image" not in texts["SHELL_SCRIPT"]


@pytest.mark.parametrize(
    ("pip", "calls"),
    [
        ("exit 0", ["stop", "pip", "daemon-reload", "enable", "restart", "start"]),
        ("exit 1", ["stop", "pip", "start"]),
    ],
)
def test_an_upgrade_replaces_the_program_once_the_old_agent_has_ended(
    tmp_path: Path, pip: str, calls: list[str]
) -> None:
    log = tmp_path / "log"
    programs = {
        "bin/systemctl": f'[ "$1" = is-active ] || echo "$1" >> {log}',
        "bin/chown": "exit 0",
        "bin/id": "exit 0",
        "opt/slipway-delegate/bin/python": f"echo pip >> {log}; {pip}",
        "opt/slipway-delegate/bin/slipway-delegate": "exit 0",
    }
    for name, code in programs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o700)
    (tmp_path / "etc" / "systemd" / "system").mkdir(parents=True)
    for name, text in write("SHELL_SCRIPT").files.items():
        (tmp_path / name).write_text(text)
    script = (tmp_path / "install.sh").read_text()
    script = script.replace("$root/", f"{tmp_path}/").replace("/etc/systemd", f"{tmp_path}/etc/systemd")
    (tmp_path / "install.sh").write_text(script)

    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    run = subprocess.run(["sh", tmp_path / "install.sh", "new.whl"], env=environment, check=False)
    assert log.read_text().split() == calls
    assert (run.returncode == 0) is (pip == "exit 0")
