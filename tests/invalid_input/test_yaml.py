"""Every door that takes YAML, with texts that are none: refused at once, with the line, and nothing kept."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from tests.api.requests import IN_SCOPE, pipeline_form, rows_of, service_form
from tests.api.sample_project import World
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.fixtures.time_limits import run_within_cpu
from tests.invalid_input.conftest import Send

pytestmark = pytest.mark.django_db

LAUGHS = "".join(f"{n}: &{n} [*{p}, *{p}]\n" for p, n in itertools.pairwise("abcdefghijklmnopqrs"))
# What each says of itself, in any of these words.
CORPUS: dict[str, tuple[str, str]] = {
    "brackets": ("[" * 100_000, "nested deeper"),
    "braces": ('{"a":' * 50_000, "nested deeper"),
    "dashes": ("- " * 100_000, "nested deeper"),
    "question marks": ("? " * 100_000, ""),
    "billion laughs": (f"a: &a [x, x]\n{LAUGHS}", "aliases"),
    "alias": ("a: &x 1\nb: *x", "aliases"),
    "merge": ("a: &x {b: 1}\nc:\n  <<: *x", "aliases"),
    "python tag": ("a: !!python/object/apply:os.system ['id']", "the tag"),
    "binary tag": ("a: !!binary aGVsbG8=", "the tag"),
    "two documents": ("a: 1\n---\nb: 2", "only one document"),
    "twice": ("a: 1\nb: 2\na: 3", "already given on line 1"),
    "directive": ("%TAG ! tag:x,2000:\n---\na: 1", "directives"),
    "many values": ("x: [" + "1," * 100_000 + "]", "more than 20000 values"),
    "large": ("a: " + "x" * 300_000, ""),
    "many digits": ("a: " + "9" * 5000, "too large"),
    "infinite": ("a: 1e999", "too large"),
    "not a number": ("a: .nan", "not a number"),
    "tab": ("a:\n\tb: 1", "indent with spaces"),
    "key that is a list": ("? [a]\n: 1", "a key must be a plain word"),
    "no end": ("a: [1, 2", ""),
    "bell": ("ok: 1\na: \x07", "U+0007"),
    "escaped NUL": ('ok: 1\na: "\\0"', "NUL"),
}
# Manifests expand aliases, within the limit of values (R163).
OF_ALIASES: dict[str, str | None] = {
    "billion laughs": "aliases expand to more than",
    "alias": None,
    "merge": "merge keys",
}
LINE = re.compile(r"line \d+|\"line\": ?\d+", re.IGNORECASE)
TOO_LARGE = re.compile("262144 characters|256 KiB")
Ask = Callable[[Send, World, str], Any]


@dataclass(frozen=True)
class Door:
    """A way to submit a text, and the status for an invalid one."""

    ask: Ask
    status: int = 400
    # A page that draws what is being written draws nothing where it cannot be read.
    says_why: bool = True
    is_of_manifests: bool = False


def _json(method: str, name: str, body: Callable[[World, str], dict[str, Any]], **kwargs: Any) -> Ask:
    def ask(send: Send, world: World, text: str) -> Any:
        address = reverse(name, kwargs=_kwargs(world, kwargs)) + IN_SCOPE
        content = json.dumps(body(world, text))
        return send("generic", method, address, content, content_type="application/json")

    return ask


def _form(name: str, body: Callable[[World, str], dict[str, Any]], query: str = "", **kwargs: Any) -> Ask:
    def ask(send: Send, world: World, text: str) -> Any:
        return send("post", reverse(name, kwargs=_kwargs(world, kwargs)) + query, body(world, text))

    return ask


def _kwargs(world: World, attributes: dict[str, str]) -> dict[str, Any]:
    return {name: getattr(world, thing).pk for name, thing in attributes.items()}


def _as_yaml(send: Send, world: World, text: str) -> Any:
    address = reverse("api-pipelines") + IN_SCOPE
    return send("generic", "POST", address, text, content_type="application/yaml")


def _yaml(_world: World, text: str) -> dict[str, Any]:
    return {"yaml": text, "org": "default", "project": "demo"}


def _only_yaml(_world: World, text: str) -> dict[str, Any]:
    return {"yaml": text}


def build_new_pipeline(world: World, text: str) -> dict[str, Any]:
    return pipeline_form(world) | {"yaml": text}


def build_pipeline_edit(world: World, text: str) -> dict[str, Any]:
    return {"yaml": text, "version": world.pipeline.version}


def _step(world: World, text: str) -> dict[str, Any]:
    """Return a pipeline whose step contains the text as its manifest."""
    manifest = {"type": "Inline", "spec": {"content": text}}
    spec = json.dumps({"taskDefinition": manifest, "runTaskRequestDefinition": manifest})
    steps = f"- step: {{identifier: job, type: EcsRunTask, spec: {spec}}}\n"
    return _yaml(world, pipeline_text(stage_text(steps)))


def _manifests(text: str) -> list[dict[str, Any]]:
    return [{"identifier": "task", "kind": "EcsTaskDefinition", "store": "Inline", "content": text}]


def _service(_world: World, text: str) -> dict[str, Any]:
    named = {
        "identifier": "new",
        "name": "New",
        "artifact": {"image": "nginx"},
        "manifests": _manifests(text),
    }
    return named | {"org": "default", "project": "demo"}


def _override(_world: World, text: str) -> dict[str, Any]:
    return {"variables": {}, "manifests": _manifests(text)}


def _file(_world: World, text: str) -> dict[str, Any]:
    return {"path": "/task.yaml", "content": text, "org": "default", "project": "demo"}


def _service_form(world: World, text: str) -> dict[str, Any]:
    manifest = rows_of("manifests", kind="EcsTaskDefinition", store="Inline", content=text)
    return service_form(world) | {"image": "nginx", "tag": "1"} | manifest


WHERE = {"pk": "environment", "service": "service"}
DOORS = {
    "pipeline": Door(_json("POST", "api-pipelines", _yaml)),
    "pipeline as YAML": Door(_as_yaml),
    "pipeline changed": Door(_json("PUT", "api-pipeline", _only_yaml, pk="pipeline")),
    "pipeline checked": Door(_json("POST", "api-pipeline-checks", _yaml), status=200),
    "pipeline page": Door(_form("new-pipeline", build_new_pipeline)),
    "pipeline edited": Door(_form("edit-pipeline", build_pipeline_edit, pk="pipeline")),
    "pipeline checked as written": Door(_form("check-pipeline", build_new_pipeline), status=200),
    "pipeline drawn": Door(_form("draw-pipeline", build_new_pipeline), status=200, says_why=False),
    "pipeline by forms": Door(_form("edit-pipeline-visually", build_new_pipeline), status=200),
    "step manifest": Door(_json("POST", "api-pipelines", _step), is_of_manifests=True),
    "step manifest checked": Door(
        _json("POST", "api-pipeline-checks", _step), status=200, is_of_manifests=True
    ),
    "file checked": Door(_json("POST", "api-file-checks", _file), status=200, is_of_manifests=True),
    "service": Door(_json("POST", "api-services", _service), is_of_manifests=True),
    "service page": Door(_form("new-service", _service_form), is_of_manifests=True),
    "manifest as written": Door(_form("check-manifest", _service_form), status=200, is_of_manifests=True),
    "override": Door(_json("PUT", "api-override", _override, **WHERE), is_of_manifests=True),
    "override as written": Door(
        _form("check-override-in-environment", _service_form, **WHERE), status=200, is_of_manifests=True
    ),
}


# Enough to see that a door reads with the guard, whose own tests have all of them.
SHARP = ("braces", "billion laughs", "twice", "large", "escaped NUL")


def _knock(door: Door, kind: str, world: World, send: Send) -> None:
    text, message = CORPUS[kind]
    if door.is_of_manifests and kind in OF_ALIASES:
        expected = OF_ALIASES[kind]
        if expected is None:
            return
        message = expected
    response = run_within_cpu(0.5, lambda: door.ask(send, world, text))
    answered = unescape(response.content.decode())
    if TOO_LARGE.search(answered):
        assert response.status_code in (door.status, 400), kind
        return
    assert response.status_code == door.status, (kind, answered[:500])
    if door.says_why:
        assert LINE.search(answered), (kind, answered[:500])
        assert message.lower() in answered.lower(), (kind, answered[:500])


def test_what_is_no_document_is_refused_at_once_with_its_line(world: World, send: Send) -> None:
    for name, door in DOORS.items():
        for kind in SHARP:
            print(name, kind)
            _knock(door, kind, world, send)


@pytest.mark.soak
@pytest.mark.parametrize("name", DOORS)
def test_so_is_every_other_text_that_is_none(name: str, world: World, send: Send) -> None:
    for kind in CORPUS:
        _knock(DOORS[name], kind, world, send)
