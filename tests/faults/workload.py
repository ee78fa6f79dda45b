"""Many small ECS services of one installation, deployed side by side, and what must have come of it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults.installation import Answer, Installation
from tests.fixtures.processes import wait_until

FAILS = "crash"
WRITES = ("RegisterTaskDefinition", "CreateService", "UpdateService")
# A lease that a killed worker held runs for a minute; a claimed message that was lost for a quarter of one.
LONGEST = 100


@dataclass(frozen=True)
class Run:
    """One requested execution."""

    id: str
    service: str
    tag: str


@dataclass
class Workload:
    """The services, and everything that was asked of them."""

    installation: Installation
    pipelines: dict[str, int] = field(default_factory=dict)

    def create(self, count: int) -> None:
        """Create services with one pipeline each, like the demo's."""
        seed = self.installation.sandbox.seed()
        answer = self.installation.get("/api/v1/pipelines?org=default&project=demo&identifier=rolling_demo")
        demo = answer["results"][0]["yaml"]
        for number in range(1, count + 1):
            name = f"app{number}"
            self._post("services", build_service(name, seed))
            yaml = demo.replace("rolling_demo", name).replace("serviceRef: myapp", f"serviceRef: {name}")
            response = self._post("pipelines", {"yaml": yaml, "org": "default", "project": "demo"})
            self.pipelines[name] = response.json()["id"]

    def _post(self, resource: str, body: object) -> Answer:
        answer = self.installation.request("POST", f"/api/v1/{resource}", body)
        assert answer.status == 201, answer.body
        return answer

    def start(self, service: str, tag: str, *, key: str = "", web: int = 0) -> Run:
        """Start an execution; retry with the same key on both web servers."""
        path = f"/api/v1/pipelines/{self.pipelines[service]}/executions"
        key = key or f"{service} {tag} {self.installation.sandbox.journal()[-1:]}"[:100]
        execution_ids: list[str] = []

        def post_execution() -> bool:
            for web_index in (web, 1 - web):
                answer = self.installation.request(
                    "POST", path, {"artifact": {"tag": tag}}, web=web_index, Idempotency_Key=key
                )
                if answer.status == 201:
                    execution_ids.append(answer.json()["id"])
                    return True
                assert answer.status in (0, 429, 503), answer.body
            return False

        wait_until(post_execution, "an execution that is taken on", 60)
        return Run(execution_ids[0], service, tag)

    def deploy_all(self, tag: str) -> list[Run]:
        """One execution of each service, until all are over."""
        runs = [self.start(service, tag) for service in self.pipelines]
        self.until_over(runs)
        return runs

    def until_over(self, runs: Sequence[Run]) -> None:
        """Wait until nothing is open any more, and nobody holds anything."""
        open_ones = (
            "SELECT id FROM deployments_execution WHERE due_at IS NOT NULL OR lease_expires_at IS NOT NULL"
        )
        wait_until(
            lambda: not self.installation.rows(open_ones), f"the end of {len(runs)} executions", LONGEST
        )

    def mark(self) -> int:
        """The number of the last call that AWS has seen."""
        return self.installation.sandbox.last_number()

    def check(self, runs: Sequence[Run], *, after: int) -> None:
        """Check the expected ends, single writes and released locks."""
        documents = {run.id: self.installation.get(f"/api/v1/executions/{run.id}") for run in runs}
        for run in runs:
            document = documents[run.id]
            result = (document["status"], document["outcome"])
            expected = ("FAILED", "ROLLED_BACK") if run.tag == FAILS else ("SUCCESS", "COMPLETED")
            assert result == expected, (run, document["failure"], self.log(run)[-5:])
            numbers = [line["number"] for line in self._lines(run)]
            assert numbers == list(range(1, len(numbers) + 1)), f"{run} has gaps or doubles in its log"
        assert self.count_writes(after) == _expected(runs)
        locks_query = "SELECT count(*) FROM deployments_servicelock"
        mistakes = "SELECT result FROM deployments_interrupt WHERE kind = 'FAIL'"
        assert self.installation.rows(locks_query) == [(0,)]
        assert self.installation.rows(mistakes) == []

    def count_writes(self, after: int) -> Counter[tuple[str, str]]:
        """Count the writes to AWS since then by service and operation."""
        entries = self.installation.sandbox.journal(after)
        return Counter(
            (_service_of(entry["params"]), entry["operation"])
            for entry in entries
            if entry["effect"] and entry["operation"] in WRITES
        )

    def log(self, run: Run) -> list[str]:
        return [line["text"] for line in self._lines(run)]

    def _lines(self, run: Run) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = self.installation.get(f"/api/v1/executions/{run.id}/log")["lines"]
        return lines


def _expected(runs: Sequence[Run]) -> Counter[tuple[str, str]]:
    """One registration and one update for each run; a failed one is updated back."""
    counts: Counter[tuple[str, str]] = Counter()
    for run in runs:
        counts[run.service, "RegisterTaskDefinition"] += 1
        counts[run.service, "UpdateService"] += 2 if run.tag == FAILS else 1
    return counts


def _service_of(params: dict[str, Any]) -> str:
    return str(params.get("service") or params.get("serviceName") or params.get("family")).rpartition("/")[2]


def build_service(name: str, seed: Mapping[str, Any], **container_fields: Any) -> dict[str, Any]:
    """Return a service of one task as the API takes it; `seed` has the networks and roles of the sandbox."""
    container = {"name": "app", "image": "<+primary.artifact.image>", "essential": True, **container_fields}
    task = {
        "family": name,
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        "executionRoleArn": seed["execution_role_arn"],
        "containerDefinitions": [container],
    }
    network = {"subnets": seed["subnets"], "securityGroups": [seed["security_group"]]}
    service = {
        "serviceName": name,
        "launchType": "FARGATE",
        "desiredCount": 1,
        "networkConfiguration": {"awsvpcConfiguration": network},
    }
    manifests = (("task", "EcsTaskDefinition", task), ("service", "EcsServiceDefinition", service))
    return {
        "identifier": name,
        "name": name,
        "org": "default",
        "project": "demo",
        "artifact": {"image": "library/nginx", "tag": "1.27"},
        "manifests": [
            {"identifier": identifier, "kind": kind, "store": "Inline", "content": json.dumps(document)}
            for identifier, kind, document in manifests
        ],
    }
