"""Manifest and commands of a delegate in Kubernetes: a StatefulSet whose pods are instances (R027, R067)."""

import shlex
from collections.abc import Iterator
from typing import Any, Final

import yaml

from delegates.install.containers import get_cpus, get_memory, get_stop_seconds
from delegates.install.documents import list_environment_variables
from delegates.install.plan import AGENT_PORT, SpecPlan, build_host_name
from delegates.install.specs import ShellCommand

MANIFEST_FILE: Final = "harness-kubernetes.yaml"
HELM_VALUES_FILE: Final = "helm-values.yaml"
NAMESPACE: Final = "harness-delegate"
CONTAINER: Final = "delegate"
_HOME: Final = "/var/lib/slipway-delegate"
# The user of the image that is not root.
_USER: Final = 10_001
_CODE_LETTERS: Final = 6
# With code and ordinal, the name of a pod fits a label of 63 characters.
_NAME_CHARACTERS: Final = 40
Document = dict[str, Any]


def build_workload_name(plan: SpecPlan) -> str:
    """Return the name of the StatefulSet: with the first six letters of the account ID (R027)."""
    name = build_host_name(plan.name).lower()[:_NAME_CHARACTERS].rstrip("-")
    return f"{name}-{build_account_code(plan)}"


def build_account_code(plan: SpecPlan) -> str:
    """Return the first six letters that occur in the account ID, in lower case."""
    letters = [letter for letter in plan.request.account_id.lower() if "a" <= letter <= "z"]
    return "".join(letters[:_CODE_LETTERS]) or "slipway"


def build_manifest_files(plan: SpecPlan) -> dict[str, str]:
    """Return the manifest, whose secret holds the token, and the values of the Helm chart without it."""
    return {
        MANIFEST_FILE: yaml.safe_dump_all(build_manifests(plan), sort_keys=False, width=10_000),
        HELM_VALUES_FILE: yaml.safe_dump(build_helm_values(plan), sort_keys=False, width=10_000),
    }


def build_helm_values(plan: SpecPlan) -> Document:
    """Return the values with which `deploy/delegate/helm` renders to the manifest; the token is missing."""
    request = plan.request
    return {
        "workload": build_workload_name(plan),
        "name": plan.name,
        "accountId": request.account_id,
        "managerUrl": request.manager_url,
        "accountCode": build_account_code(plan),
        "tags": ",".join(request.tags),
        "image": request.image,
        "replicas": request.desired_count,
        "minAvailable": min(request.desired_count - 1, 1),
        "stopSeconds": get_stop_seconds(plan),
        "cpu": f"{get_cpus(plan):g}",
        "memory": f"{get_memory(plan)}Mi",
        "serviceAccountAnnotations": _build_role_annotations(plan),
    }


def _build_role_annotations(plan: SpecPlan) -> dict[str, str]:
    """Return the annotations for IAM roles of service accounts, on EKS."""
    return {"eks.amazonaws.com/role-arn": plan.task_role_arn} if plan.request.task_role else {}


def build_manifests(plan: SpecPlan) -> list[Document]:
    """Return namespace, secret, service account, disruption budget and StatefulSet, in their order."""
    name = build_workload_name(plan)
    secret = _build_object("v1", "Secret", f"{name}-token", plan)
    account = _build_object("v1", "ServiceAccount", name, plan)
    if annotations := _build_role_annotations(plan):
        account["metadata"]["annotations"] = annotations
    manifests = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        secret | {"type": "Opaque", "stringData": {"HARNESS_TOKEN": plan.token}},
        account | {"automountServiceAccountToken": False},
    ]
    if plan.request.desired_count > 1:
        budget = _build_object("policy/v1", "PodDisruptionBudget", name, plan)
        selector = {"matchLabels": _build_labels(plan)}
        manifests.append(budget | {"spec": {"minAvailable": 1, "selector": selector}})
    return [*manifests, _build_stateful_set(plan)]


def _build_object(version: str, kind: str, name: str, plan: SpecPlan) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": _build_labels(plan)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _build_labels(plan: SpecPlan) -> dict[str, str]:
    return {
        "harness.io/app": "harness-delegate",
        "harness.io/account": build_account_code(plan),
        "harness.io/name": build_workload_name(plan),
    }


def _build_stateful_set(plan: SpecPlan) -> Document:
    name, labels = build_workload_name(plan), _build_labels(plan)
    pod = {
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": get_stop_seconds(plan),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_build_container(plan)],
        "volumes": [{"name": "home", "emptyDir": {}}, {"name": "temporary", "emptyDir": {}}],
    }
    spec = {
        "serviceName": name,
        "replicas": plan.request.desired_count,
        # Instances are independent of each other; an update still replaces one at a time.
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "selector": {"matchLabels": labels},
        # A copy: YAML would write a reference to the labels above.
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }
    return _build_object("apps/v1", "StatefulSet", name, plan) | {"spec": spec}


def _build_container(plan: SpecPlan) -> Document:
    token = {"secretKeyRef": {"name": f"{build_workload_name(plan)}-token", "key": "HARNESS_TOKEN"}}
    memory = f"{get_memory(plan)}Mi"
    # Kubernetes would expand $(NAME) in a value, and makes one $ of every two.
    variables = [
        {"name": name, "value": value.replace("$", "$$")} for name, value in list_environment_variables(plan)
    ]
    return {
        "name": CONTAINER,
        "image": plan.request.image,
        "env": [*variables, {"name": "HARNESS_TOKEN", "valueFrom": token}],
        "ports": [{"name": "health", "containerPort": AGENT_PORT}],
        "resources": {
            "requests": {"cpu": f"{get_cpus(plan):g}", "memory": memory},
            "limits": {"memory": memory},
        },
        "startupProbe": _build_probe("/api/health", period=5, failures=24),
        "livenessProbe": _build_probe("/api/health", period=20, failures=3),
        # An update waits until the new pod has connected.
        "readinessProbe": _build_probe("/api/ready", period=5, failures=2),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "home", "mountPath": _HOME}, {"name": "temporary", "mountPath": "/tmp"}],  # noqa: S108
    }


def _build_probe(path: str, *, period: int, failures: int) -> Document:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "timeoutSeconds": 4,
        "failureThreshold": failures,
    }


def list_kubernetes_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    """Return the commands to install, inspect and update the StatefulSet."""
    name = build_workload_name(plan)
    workload, labels = f"statefulset/{name}", f"harness.io/name={name}"
    status = _build_command("rollout", "status", workload, "--timeout", "5m")
    yield ShellCommand("Apply the manifest", shlex.join(["kubectl", "apply", "--filename", MANIFEST_FILE]))
    yield ShellCommand("Wait until every instance has connected", status, "verify")
    image = _build_command("set", "image", workload, f"{CONTAINER}={plan.request.image}")
    yield ShellCommand("Set the new image", image, "update")
    yield ShellCommand("Wait until every instance has connected", status, "update")
    pods = _build_command("describe", "pods", "--selector", labels)
    yield ShellCommand("Read the events of the pods", pods, "diagnose")
    log = _build_command("logs", "--selector", labels, "--tail", "100", "--prefix")
    yield ShellCommand("Read the delegate's log", log, "diagnose")


def _build_command(*words: str) -> str:
    return shlex.join(["kubectl", "--namespace", NAMESPACE, *words])
