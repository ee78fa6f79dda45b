"""Reader of a soak's history: rows of the database, and writes from the sandbox's own journal."""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import boto3

from aws.apis.elb import get_target_group_weights
from benchmarks.soak.history import (
    NUMBERED,
    STATED_GAP,
    ExecutionRow,
    History,
    LogRows,
    SandboxWrite,
    ServiceState,
    WriteRow,
    count_stated,
)
from benchmarks.soak.site import Site
from deployments.journal.callers import hash_call
from deployments.log.lines import decode_block, decompress
from sandbox.journal import is_read
from tests.fixtures.processes import wait_until

SANDBOX_PATIENCE: Final = 60.0

_MEMBER: Final = re.compile(r"^(?P<name>[^.]+)\.member\.(?P<number>\d+)(?:\.(?P<rest>.+))?$")
# By number, as a clock that jumps does not order what was created.
EXECUTIONS: Final = """
SELECT e.id::text, p.identifier, coalesce(e.tag, ''), e.status, e.outcome,
       extract(epoch FROM now() - e.created_at)::float8, e.ended_at IS NULL,
       extract(epoch FROM now() - greatest(e.due_at, e.lease_expires_at))::float8, e.next_line_number - 1
FROM deployments_execution e JOIN pipelines_pipeline p ON p.id = e.pipeline_id
ORDER BY p.id, e.number, e.attempt
"""
WRITES: Final = """
SELECT id, execution_id::text, service, operation, params_hash,
       -- A repetition that waits for a delegate: what it repeats was sent.
       CASE WHEN state = 'PLANNED' AND is_confirmed THEN 'UNKNOWN' ELSE state END
FROM deployments_awscall WHERE is_write AND service IN ('ecs', 'elbv2') ORDER BY id
"""
CHUNKS: Final = "SELECT execution_id::text, first, last, packed FROM deployments_logchunk ORDER BY first"


class HistoryReader:
    """Reader that keeps the sandbox's writes, since its journal drops the oldest entries."""

    def __init__(
        self, site: Site, *, numbered_lines: int, scripts: frozenset[str], pairs: frozenset[str]
    ) -> None:
        self._site, self._numbered_lines, self._scripts, self._pairs = site, numbered_lines, scripts, pairs
        self._writes: list[SandboxWrite] = []
        self._last = 0

    def collect_writes(self) -> None:
        """Read the new entries of the sandbox's journal."""
        while entries := self._read_entries():
            self._writes += [_parse_write(entry) for entry in entries if _is_taken(entry)]
            self._last = entries[-1]["number"]

    def _read_entries(self) -> list[dict[str, Any]]:
        """Return the next page of the journal; the sandbox refuses connections while a fault says so."""
        answers: list[list[dict[str, Any]]] = []

        def read() -> bool:
            with contextlib.suppress(OSError):
                answers.append(self._site.installation.sandbox.journal(self._last))
            return bool(answers)

        wait_until(read, "an answer of the sandbox", SANDBOX_PATIENCE)
        return answers[0]

    def read(self, services: Mapping[str, str] | None = None) -> History:
        """Return the history so far; `services` are pipelines and the ECS services whose state is read."""
        self.collect_writes()
        early = len(self._writes)
        executions = [ExecutionRow(*row) for row in self._site.query(EXECUTIONS)]
        writes = [WriteRow(pk, run, tuple(key), state) for pk, run, *key, state in self._site.query(WRITES)]
        logs = self._read_logs(executions)
        self.collect_writes()
        late = [replace(write, is_early=False) for write in self._writes[early:]]
        states = self._read_services(executions, services or {})
        return History(executions, writes, [*self._writes[:early], *late], logs, states)

    def _read_logs(self, executions: Iterable[ExecutionRow]) -> list[LogRows]:
        """Return the logs of ended executions, which no commit changes any more."""
        spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for execution, first, last, packed in self._site.query(CHUNKS):
            spans[execution].append((first, last))
            texts[execution] += _list_relevant_texts(decompress(packed))
        return [
            LogRows(row.id, spans[row.id], texts[row.id], self._count_expected(row))
            for row in executions
            if not row.is_open
        ]

    def _count_expected(self, row: ExecutionRow) -> int:
        return self._numbered_lines if row.pipeline in self._scripts and row.status == "SUCCESS" else 0

    def _read_services(
        self, executions: Sequence[ExecutionRow], services: Mapping[str, str]
    ) -> list[ServiceState]:
        if not services:
            return []
        account = _Account(self._site)
        return [
            account.read_service(
                account.find_production(name) if pipeline in self._pairs else name,
                [row for row in executions if row.pipeline == pipeline],
            )
            for pipeline, name in services.items()
        ]


def _is_taken(entry: Mapping[str, Any]) -> bool:
    return not entry["error"] and not is_read(entry["operation"]) and entry["service"] in ("ecs", "elbv2")


def _parse_write(entry: Mapping[str, Any]) -> SandboxWrite:
    service, operation = entry["service"], entry["operation"]
    digest = hash_call(service, operation, parse_parameters(entry["params"]))
    return SandboxWrite(entry["number"], (service, operation, digest), entry["effect"])


def parse_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as a client passed them: lists in place of the names of AWS's query protocol."""
    parsed: dict[str, Any] = {}
    lists: defaultdict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for name, value in params.items():
        if match := _MEMBER.match(name):
            lists[match["name"]].setdefault(int(match["number"]), {})[match["rest"] or ""] = value
        else:
            parsed[name] = value
    for name, items in lists.items():
        parsed[name] = [_parse_item(items[number]) for number in sorted(items)]
    return parsed


def _parse_item(item: dict[str, Any]) -> Any:
    return item[""] if "" in item else parse_parameters(item)


def _list_relevant_texts(body: str) -> list[str]:
    if NUMBERED not in body and not STATED_GAP.search(body):
        return []
    texts = [entry.text for entry in decode_block(body)]
    return [text for text in texts if text.startswith(NUMBERED) or count_stated(text)]


def choose_production(base_name: str, services: Iterable[Mapping[str, Any]], groups: Collection[str]) -> str:
    """Return the active service that is alone behind the target groups; without one, a name that says so."""
    live = [
        service["serviceName"]
        for service in services
        if service["status"] == "ACTIVE"
        and set(groups) == {balancer["targetGroupArn"] for balancer in service["loadBalancers"]}
    ]
    return live[0] if len(live) == 1 else f"{base_name} (production of {len(live)} services)"


class _Account:
    """State of the sandbox's account as its API shows it."""

    def __init__(self, site: Site) -> None:
        sandbox = site.installation.sandbox
        self._seed = sandbox.seed()
        options = {
            "endpoint_url": sandbox.url,
            "region_name": self._seed["region"],
            "aws_access_key_id": "checker",
            "aws_secret_access_key": "checker",
        }
        self._ecs, self._elb = (boto3.client(name, **options) for name in ("ecs", "elbv2"))

    def find_production(self, base_name: str) -> str:
        """Return the service of a blue/green pair that has all production traffic."""
        listener = self._seed["load_balancer"]["prod_listener"]["arn"]
        actions = self._elb.describe_listeners(ListenerArns=[listener])["Listeners"][0]["DefaultActions"]
        groups = {group for group, weight in get_target_group_weights(actions).items() if weight}
        names = [f"{base_name}__1", f"{base_name}__2"]
        services = self._ecs.describe_services(cluster=self._seed["cluster"], services=names)["services"]
        return choose_production(base_name, services, groups)

    def read_service(self, name: str, executions: list[ExecutionRow]) -> ServiceState:
        """Return the image of a service and whether it is steady; no image if there is no such service."""
        cluster = self._seed["cluster"]
        found = self._ecs.describe_services(cluster=cluster, services=[name])["services"]
        if not found:
            return ServiceState(name, "", False, executions)
        service = found[0]
        definition = self._ecs.describe_task_definition(taskDefinition=service["taskDefinition"])
        image = definition["taskDefinition"]["containerDefinitions"][0]["image"]
        counts = service["runningCount"], service["desiredCount"]
        is_steady = counts[0] == counts[1] > 0 and len(service["deployments"]) == 1
        return ServiceState(name, image.rpartition(":")[2], is_steady, executions)


def format_history(history: History) -> str:
    """Return the rows of a history as JSON, for a look at a broken promise."""
    return json.dumps(history, default=lambda row: row.__dict__, indent=1)
