"""Deployments of a soak: each pipeline runs again and again, with good and bad images, and some rollbacks."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import indent
from typing import Final

from benchmarks.soak.history import NUMBERED
from benchmarks.soak.site import DELEGATED, PROJECT, TAG, Site
from tests.faults.workload import Workload

GOOD_TAGS: Final = ("1.27", "1.28", "1.29")
BAD_TAG: Final = "crash"
BAD_SHARE, ROLLBACK_SHARE = 0.15, 0.15
NUMBERED_LINES: Final = 200
SCRIPT: Final = "soak_script"
RETRY_PAUSE, POLL_PAUSE = 1.0, 1.0
# Pipelines of the demo that deploy directly, and the ECS service of each (of a pair without suffix).
DEMO: Final = {"canary_demo": "webshop", "blue_green_demo": "storefront", "run_task_demo": ""}
PAIRS: Final = frozenset({"blue_green_demo"})
DONE_TAGS: Final = ("done",)
DIRECT, THROUGH_DELEGATES = 3, 2
SCRIPT_PIPELINE: Final = """
pipeline:
  identifier: {name}
  name: Soak script
  stages:
    - stage:
        identifier: run
        type: Deployment
        spec:
          deploymentType: ECS
          service: {{serviceRef: myapp}}
          environment:
            environmentRef: dev
            infrastructureDefinitions: [{{identifier: sandbox}}]
          execution:
            steps:
              - step:
                  identifier: run
                  type: ShellScript
                  timeout: 5m
                  delegateSelectors: [{tag}]
                  spec:
                    shell: Bash
                    script: |
{script}
"""
# Twenty lines a second.
LINES_OF_SCRIPT: Final = """
for number in $(seq 1 {lines}); do
  echo "{numbered}$number"
  if [ $((number % 20)) = 0 ]; then sleep 1; fi
done
"""


@dataclass(frozen=True)
class Target:
    """A pipeline, and the ECS service whose state at the end is compared; `may_fail` allows bad images."""

    identifier: str
    id: int
    ecs_service: str = ""
    tags: tuple[str, ...] = GOOD_TAGS
    may_fail: bool = True

    def choose_tag(self, number: int) -> str:
        """Return the image of the next run; the first ones are good."""
        is_bad = self.may_fail and number > 1 and random.random() < BAD_SHARE
        return BAD_TAG if is_bad else self.tags[number % len(self.tags)]


def create_targets(site: Site) -> list[Target]:
    """Create services and pipelines that deploy directly, through delegates, and a script at delegates."""
    _create_delegated_infrastructure(site)
    workload = Workload(site.installation)
    workload.create(DIRECT + THROUGH_DELEGATES)
    for name in list(workload.pipelines)[DIRECT:]:
        _deploy_through_delegates(site, workload.pipelines[name])
    targets = [Target(name, pk, name) for name, pk in workload.pipelines.items()]
    for name, service in DEMO.items():
        pipelines = site.installation.get(f"/api/v1/pipelines?org=default&project=demo&identifier={name}")
        tags = DONE_TAGS if name == "run_task_demo" else GOOD_TAGS
        targets.append(Target(name, pipelines["results"][0]["id"], service, tags, tags is not DONE_TAGS))
    targets.append(create_script(site))
    return targets


def create_script(site: Site, lines: int = NUMBERED_LINES) -> Target:
    """Create the pipeline with a script at a delegate that numbers its lines."""
    script = indent(LINES_OF_SCRIPT.format(lines=lines, numbered=NUMBERED).strip("\n"), " " * 22)
    yaml = SCRIPT_PIPELINE.format(name=SCRIPT, tag=TAG, script=script)
    return Target(SCRIPT, site.post("pipelines", {"yaml": yaml, **PROJECT})["id"], may_fail=False)


def _create_delegated_infrastructure(site: Site) -> None:
    sandbox = site.installation.sandbox
    spec = {
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": [TAG],
        "endpoint_url": sandbox.url,
        "test_region": "us-east-1",
    }
    site.post("connectors", {"identifier": DELEGATED, "name": "Delegated", "spec": spec, **PROJECT})
    environments = site.installation.get("/api/v1/environments?org=default&project=demo&identifier=dev")
    seed = sandbox.seed()
    body = {
        "identifier": DELEGATED,
        "name": "Delegated",
        "connector": DELEGATED,
        "region": seed["region"],
        "cluster": seed["cluster"],
    }
    site.post(f"environments/{environments['results'][0]['id']}/infrastructures", body)


def _deploy_through_delegates(site: Site, pipeline: int) -> None:
    document = site.installation.get(f"/api/v1/pipelines/{pipeline}")
    yaml = document["yaml"].replace("identifier: sandbox", f"identifier: {DELEGATED}")
    answer = site.installation.request(
        "PUT", f"/api/v1/pipelines/{pipeline}", {"yaml": yaml}, If_Match=f'"{document["version"]}"'
    )
    if answer.status != 200:
        raise RuntimeError(f"the pipeline was answered {answer.status}: {answer.body[:500]!r}")


@dataclass
class Deployments:
    """Threads that run one pipeline each until they are stopped, and what they were answered."""

    site: Site
    targets: list[Target]
    answers: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Start all threads."""
        for target in self.targets:
            thread = threading.Thread(target=self._run_target, args=(target,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Start nothing new, and wait for the threads."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)

    def list_services(self) -> Mapping[str, str]:
        """Return the ECS services whose state is checked, by pipeline."""
        return {target.identifier: target.ecs_service for target in self.targets if target.ecs_service}

    def _run_target(self, target: Target) -> None:
        try:
            for number in itertools.count():
                if self._stopping.is_set():
                    return
                execution = self._start(target, target.choose_tag(number), number)
                if not execution or not self._wait(execution):
                    return
                if target.may_fail and number > 1 and random.random() < ROLLBACK_SHARE:
                    self._roll_back(execution)
        except (OSError, AssertionError, LookupError, ValueError) as exc:
            self.errors.append(f"{target.identifier}: {exc!r}")

    def _start(self, target: Target, tag: str, number: int) -> str:
        """Start an execution: the same request, with its idempotency key, until one is answered."""
        path = f"/api/v1/pipelines/{target.id}/executions"
        key = f"soak {target.identifier} {number}"

        def post(web: int) -> str:
            answer = self.site.installation.request(
                "POST", path, {"artifact": {"tag": tag}}, web=web, Idempotency_Key=key
            )
            self.answers[f"start {answer.status}"] += 1
            return str(answer.json()["id"]) if answer.status == 201 else ""

        return self._retry(post)

    def _wait(self, execution: str) -> bool:
        """Wait until an execution has ended; False if the soak ends before."""
        return bool(self._retry(lambda web: self._read_end(execution, web), POLL_PAUSE))

    def _read_end(self, execution: str, web: int) -> str:
        answer = self.site.installation.request("GET", f"/api/v1/executions/{execution}", web=web)
        self.answers[f"read {answer.status}"] += 1
        return str(answer.json()["ended_at"] or "") if answer.status == 200 else ""

    def _roll_back(self, execution: str) -> None:
        """Ask for a rollback, which may be refused, and wait for its end."""

        def post(web: int) -> str:
            answer = self.site.installation.request(
                "POST", f"/api/v1/executions/{execution}/rollback", {}, web=web
            )
            self.answers[f"rollback {answer.status}"] += 1
            return str(answer.status) if answer.status not in (0, 429, 503) else ""

        if self._retry(post).startswith("2"):
            # Without a wait, the end before the rollback would be taken for that of the rollback.
            time.sleep(RETRY_PAUSE)
            self._wait(execution)

    def _retry(self, request: Callable[[int], str], pause: float = RETRY_PAUSE) -> str:
        for web in itertools.cycle((0, 1)):
            if result := request(web):
                return result
            if self._stopping.wait(pause):
                break
        return ""
