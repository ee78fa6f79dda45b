"""Control API under /sandbox/: health, journal, faults, clock, reset and seed."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import parse_qs

from moto.ecs.models import ecs_backends

from sandbox.account import Account
from sandbox.account_snapshots import InvalidSnapshot, fill_account
from sandbox.aws_protocol import AwsHttpResponse
from sandbox.broken_rules import BREAKABLE_RULES, BROKEN_RULES
from sandbox.clock import CLOCK
from sandbox.faults import InvalidFault
from sandbox.programs import CONTAINER_PROCESSES
from sandbox.services import task_metadata
from sandbox.services.ecs import container_instances
from sandbox.services.ecs.backend import SandboxEcs

RequestValues = Mapping[str, Any]
MAX_INSTANCES = 100
MAX_ADVANCE_SECONDS = 7 * 24 * 3600.0
DEFAULT_REFUSAL_SECONDS = 5.0


class InvalidControlRequest(ValueError):
    """The request to the control API makes no sense."""


class ControlApi:
    """Control API at /sandbox/…; `stop_listening` refuses connections for some real seconds."""

    def __init__(self, account: Account, stop_listening: Callable[[float], None]) -> None:
        self.account = account
        self.stop_listening = stop_listening
        self.routes: dict[tuple[str, str], Callable[[RequestValues], Any]] = {
            ("GET", "/sandbox/health"): lambda _: account.describe(),
            ("GET", "/sandbox/seed"): lambda _: account.seed.to_wire(),
            ("GET", "/sandbox/journal"): self._get_journal,
            ("GET", "/sandbox/faults"): self._list_faults,
            ("POST", "/sandbox/faults"): self._add_fault,
            ("DELETE", "/sandbox/faults"): self._clear_faults,
            ("GET", "/sandbox/broken-rules"): lambda _: {"broken": sorted(BROKEN_RULES)},
            ("POST", "/sandbox/broken-rules"): self._break_rules,
            ("POST", "/sandbox/quotas"): self._enforce_quotas,
            ("GET", "/sandbox/programs"): self._list_programs,
            ("GET", "/sandbox/clock"): lambda _: CLOCK.describe(),
            ("POST", "/sandbox/clock"): self._set_clock,
            ("POST", "/sandbox/container-instances"): self._add_instances,
            ("POST", "/sandbox/reset"): self._reset,
            ("POST", "/sandbox/snapshot"): self._fill_account,
        }

    def respond(self, method: str, path: str, environ: RequestValues, body: bytes) -> AwsHttpResponse:
        if path.startswith(task_metadata.METADATA_PREFIX) and method == "GET":
            with self.account.lock:
                metadata = task_metadata.get_metadata(path)
            return (
                _build_json_response({"error": f"no {path}"}, 404)
                if metadata is None
                else _build_json_response(metadata)
            )
        route = self.routes.get((method, path.rstrip("/")))
        if route is None:
            return _build_json_response(
                {"error": f"no {method} {path}", "known": [" ".join(r) for r in self.routes]}, 404
            )
        try:
            query = {k: v[-1] for k, v in parse_qs(environ.get("QUERY_STRING", "")).items()}
            data = {**query, **_parse_body(body)}
            return _build_json_response(route(data))
        except (InvalidControlRequest, InvalidFault) as exc:
            return _build_json_response({"error": str(exc)}, 400)

    def _get_journal(self, data: RequestValues) -> Any:
        try:
            after = int(data.get("after", 0))
        except ValueError as exc:
            raise InvalidControlRequest(f"after is a number, not {data['after']!r}") from exc
        with self.account.lock:
            return {"entries": self.account.journal.after(after), "last": self.account.journal.last_number}

    def _list_programs(self, _: RequestValues) -> Any:
        with self.account.lock:
            return {"programs": [program.to_wire() for program in CONTAINER_PROCESSES.running.values()]}

    def _add_instances(self, data: RequestValues) -> Any:
        """Register machines: `cluster` by name, `count`, `type`, and an optional `region`."""
        count, kind = data.get("count", 1), data.get("type", container_instances.DEFAULT_TYPE)
        if kind not in container_instances.INSTANCE_TYPES:
            raise InvalidControlRequest(f"type is one of {', '.join(container_instances.INSTANCE_TYPES)}")
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_INSTANCES:
            raise InvalidControlRequest(f"count is a number from 1 to {MAX_INSTANCES}")
        region, cluster = data.get("region", self.account.seed.region), str(data.get("cluster"))
        with self.account.lock:
            backend = cast("SandboxEcs", ecs_backends[self.account.seed.account][region])
            if cluster not in backend.clusters:
                raise InvalidControlRequest(f"there is no cluster {cluster!r} in {region}")
            made = container_instances.add_container_instances(backend, cluster, count, kind)
            self.account.is_dirty = True
            return {"containerInstanceArns": [machine.container_instance_arn for machine in made]}

    def _list_faults(self, _: RequestValues) -> Any:
        with self.account.lock:
            return {"faults": [f.to_wire() for f in self.account.faults.active]}

    def _add_fault(self, data: RequestValues) -> Any:
        with self.account.lock:
            snapshot = self.account.snapshot() if data.get("kind") == "stale_reads" else b""
            fault = self.account.faults.add(data, snapshot)
            if fault.kind == "refuse":
                self.account.faults.active.remove(fault)
                self.stop_listening(fault.seconds or DEFAULT_REFUSAL_SECONDS)
            return fault.to_wire()

    def _clear_faults(self, _: RequestValues) -> Any:
        with self.account.lock:
            self.account.faults.clear()
        return {"faults": []}

    def _break_rules(self, data: RequestValues) -> Any:
        """Break exactly the `rules` of the request until the next reset."""
        rules = data.get("rules")
        if not isinstance(rules, list) or not all(rule in BREAKABLE_RULES for rule in rules):
            raise InvalidControlRequest(f"rules is a list of {', '.join(BREAKABLE_RULES)}")
        with self.account.lock:
            BROKEN_RULES.clear()
            BROKEN_RULES.update(rules)
        return {"broken": sorted(BROKEN_RULES)}

    def _enforce_quotas(self, data: RequestValues) -> Any:
        """Enforce AWS's request quotas until the next reset, or end that."""
        if not isinstance(enforced := data.get("enforced"), bool):
            raise InvalidControlRequest("enforced is true or false")
        with self.account.lock:
            self.account.quotas.enforce(enforced)
        return {"enforced": enforced}

    def _set_clock(self, data: RequestValues) -> Any:
        seconds, speed = (_read_number(data, name) for name in ("advance", "speed"))
        with self.account.lock:
            if "paused" in data:
                CLOCK.paused = bool(data["paused"])
            if speed is not None:
                CLOCK.speed = speed
            if seconds is not None:
                self.account.advance(min(seconds, MAX_ADVANCE_SECONDS), by_hand=True)
            return CLOCK.describe()

    def _fill_account(self, data: RequestValues) -> Any:
        """Replace the account by described resources; see `fill_account`."""
        try:
            return fill_account(self.account, data)
        except (InvalidSnapshot, KeyError) as exc:
            raise InvalidControlRequest(f"this account cannot be filled: {exc}") from exc

    def _reset(self, _: RequestValues) -> Any:
        self.account.reset()
        return self.account.describe()


def _parse_body(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        value = json.loads(body)
    except ValueError as exc:
        raise InvalidControlRequest(f"the body is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise InvalidControlRequest("the body is a JSON object")
    return value


def _read_number(data: RequestValues, name: str) -> float | None:
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidControlRequest(f"{name} is a number from 0 up, not {value!r}")
    return float(value)


def _build_json_response(value: Any, status: int = 200) -> AwsHttpResponse:
    return AwsHttpResponse(
        status, (("Content-Type", "application/json"),), json.dumps(value, default=str).encode()
    )
