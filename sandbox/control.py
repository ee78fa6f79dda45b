"""The sandbox's own API under /sandbox/: health, journal, faults, clock, reset and seed."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import parse_qs

from moto.ecs.models import ecs_backends

from sandbox import inside
from sandbox.account import Account
from sandbox.clock import CLOCK
from sandbox.ecs import instances
from sandbox.ecs.backend import SandboxEcs
from sandbox.faults import BadFault
from sandbox.programs import PROGRAMS
from sandbox.wire import Answer

Given = Mapping[str, Any]
MOST_INSTANCES = 100
LONGEST_ADVANCE = 7 * 24 * 3600.0
DEFAULT_REFUSAL = 5.0


class BadRequest(ValueError):
    """The request to the control API makes no sense."""


class Control:
    """Answers /sandbox/…; `stop_listening` closes the door for some real seconds."""

    def __init__(self, account: Account, stop_listening: Callable[[float], None]) -> None:
        self.account = account
        self.stop_listening = stop_listening
        self.routes: dict[tuple[str, str], Callable[[Given], Any]] = {
            ("GET", "/sandbox/health"): lambda _: account.describe(),
            ("GET", "/sandbox/seed"): lambda _: account.seed.to_wire(),
            ("GET", "/sandbox/journal"): self._journal,
            ("GET", "/sandbox/faults"): self._list_faults,
            ("POST", "/sandbox/faults"): self._add_fault,
            ("DELETE", "/sandbox/faults"): self._clear_faults,
            ("GET", "/sandbox/programs"): self._programs,
            ("GET", "/sandbox/clock"): lambda _: CLOCK.describe(),
            ("POST", "/sandbox/clock"): self._set_clock,
            ("POST", "/sandbox/container-instances"): self._add_instances,
            ("POST", "/sandbox/reset"): self._reset,
        }

    def answer(self, method: str, path: str, environ: Given, body: bytes) -> Answer:
        if path.startswith(inside.PREFIX) and method == "GET":
            with self.account.lock:
                found = inside.answer(path)
            return _json({"error": f"no {path}"}, 404) if found is None else _json(found)
        route = self.routes.get((method, path.rstrip("/")))
        if route is None:
            return _json({"error": f"no {method} {path}", "known": [" ".join(r) for r in self.routes]}, 404)
        try:
            query = {k: v[-1] for k, v in parse_qs(environ.get("QUERY_STRING", "")).items()}
            given = {**query, **_read(body)}
            return _json(route(given))
        except (BadRequest, BadFault) as exc:
            return _json({"error": str(exc)}, 400)

    def _journal(self, given: Given) -> Any:
        try:
            after = int(given.get("after", 0))
        except ValueError as exc:
            raise BadRequest(f"after is a number, not {given['after']!r}") from exc
        with self.account.lock:
            return {"entries": self.account.journal.after(after), "last": self.account.journal.last_number}

    def _programs(self, _: Given) -> Any:
        with self.account.lock:
            return {"programs": [program.to_wire() for program in PROGRAMS.running.values()]}

    def _add_instances(self, given: Given) -> Any:
        """Register machines: `cluster` by name, `count`, `type`, and `region` where it is another."""
        count, kind = given.get("count", 1), given.get("type", instances.DEFAULT_TYPE)
        if kind not in instances.TYPES:
            raise BadRequest(f"type is one of {', '.join(instances.TYPES)}")
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_INSTANCES:
            raise BadRequest(f"count is a number from 1 to {MOST_INSTANCES}")
        region, cluster = given.get("region", self.account.seed.region), str(given.get("cluster"))
        with self.account.lock:
            backend = cast("SandboxEcs", ecs_backends[self.account.seed.account][region])
            if cluster not in backend.clusters:
                raise BadRequest(f"there is no cluster {cluster!r} in {region}")
            made = instances.equip(backend, cluster, count, kind)
            self.account.is_dirty = True
            return {"containerInstanceArns": [machine.container_instance_arn for machine in made]}

    def _list_faults(self, _: Given) -> Any:
        with self.account.lock:
            return {"faults": [f.to_wire() for f in self.account.faults.active]}

    def _add_fault(self, given: Given) -> Any:
        with self.account.lock:
            snapshot = self.account.snapshot() if given.get("kind") == "stale_reads" else b""
            fault = self.account.faults.add(given, snapshot)
            if fault.kind == "refuse":
                self.account.faults.active.remove(fault)
                self.stop_listening(fault.seconds or DEFAULT_REFUSAL)
            return fault.to_wire()

    def _clear_faults(self, _: Given) -> Any:
        with self.account.lock:
            self.account.faults.clear()
        return {"faults": []}

    def _set_clock(self, given: Given) -> Any:
        seconds, speed = (_number(given, name) for name in ("advance", "speed"))
        with self.account.lock:
            if "paused" in given:
                CLOCK.paused = bool(given["paused"])
            if speed is not None:
                CLOCK.speed = speed
            if seconds is not None:
                self.account.advance(min(seconds, LONGEST_ADVANCE), by_hand=True)
            return CLOCK.describe()

    def _reset(self, _: Given) -> Any:
        self.account.reset()
        return self.account.describe()


def _read(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        value = json.loads(body)
    except ValueError as exc:
        raise BadRequest(f"the body is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise BadRequest("the body is a JSON object")
    return value


def _number(given: Given, name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise BadRequest(f"{name} is a number from 0 up, not {value!r}")
    return float(value)


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(status, (("Content-Type", "application/json"),), json.dumps(value, default=str).encode())
