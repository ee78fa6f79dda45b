"""Every page and route of triggers and their firings."""

from typing import Any

from tests.api.requests import Ask, Row, allow_get, get, use_key_of
from tests.api.required_access import Lists, Needs, Open
from tests.api.sample_project import CANARY, World

EDIT, EXECUTE, VIEW = "core_pipeline_edit", "core_pipeline_execute", "core_pipeline_view"


def trigger_body(world: World) -> dict[str, Any]:
    return {"name": "Changed", "service_account": world.service_account.pk}


def new_trigger_body(world: World) -> dict[str, Any]:
    new = {"pipeline": world.pipeline.pk, "identifier": "nightly", "kind": "webhook"}
    return {**new, **trigger_body(world)}


def _name_new_kind(world: World) -> dict[str, Any]:
    return {"pk": world.pipeline.pk, "kind": "webhook"}


def _edit_form(world: World) -> dict[str, Any]:
    return {**trigger_body(world), "version": 1}


TRIGGER_PAGES: dict[str, Row] = {
    "triggers": allow_get(Needs(VIEW), use_key_of("pipeline")),
    "new-trigger": allow_get(Needs(EDIT), use_key_of("pipeline")),
    "new-trigger-of-kind": Row(
        (get(Needs(EDIT)), Ask("post", Needs(EDIT), body=trigger_body, is_form=True)), _name_new_kind
    ),
    "trigger": allow_get(Needs(VIEW), use_key_of("trigger")),
    "edit-trigger": Row(
        (get(Needs(EDIT)), Ask("post", Needs(EDIT, 302), body=_edit_form, is_form=True)),
        use_key_of("trigger"),
    ),
    "delete-trigger": Row(
        (get(Needs(EDIT)), Ask("post", Needs(EDIT, 302), is_form=True)), use_key_of("trigger")
    ),
    "enable-trigger": Row((Ask("post", Needs(EDIT, 302), is_form=True),), use_key_of("trigger")),
    "rotate-trigger-secret": Row(
        (get(Needs(EDIT)), Ask("post", Needs(EDIT), is_form=True)), use_key_of("trigger")
    ),
    "try-trigger": Row(
        (
            get(Needs(EXECUTE)),
            Ask("post", Needs(EXECUTE), body=lambda world: {"payload": "{}"}, is_form=True),
        ),
        use_key_of("trigger"),
    ),
    "trigger-firing": allow_get(Needs(VIEW), use_key_of("firing")),
    "redeliver-firing": Row((Ask("post", Needs(EXECUTE, 302), is_form=True),), use_key_of("firing")),
    # Whoever knows the secret is let in: tests/pipelines/triggers/test_receiving.py.
    "trigger-hook": Row((Ask("post", Open(401, anonymous=401)),), lambda world: {"key": world.trigger.key}),
}

TRIGGERS: dict[str, Row] = {
    "api-triggers": Row(
        (
            get(Lists(VIEW)),
            get(Lists(VIEW, sign=""), "?pipeline=999999"),
            Ask("post", Needs(EDIT, 201), body=new_trigger_body),
        )
    ),
    "api-trigger": Row(
        (
            get(Needs(VIEW)),
            Ask("put", Needs(EDIT), body=trigger_body),
            Ask("delete", Needs(EDIT, 204)),
        ),
        use_key_of("trigger"),
    ),
    "api-trigger-secret": Row((Ask("post", Needs(EDIT, 201)),), use_key_of("trigger")),
    "api-trigger-trial": Row(
        (Ask("post", Needs(EXECUTE), body=lambda world: {"payload": {"tag": CANARY}}),), use_key_of("trigger")
    ),
    "api-trigger-firings": Row(
        (get(Needs(VIEW)), get(Needs(VIEW), "?status=IGNORED")), use_key_of("trigger")
    ),
    "api-trigger-firing": allow_get(Needs(VIEW), use_key_of("firing")),
    "api-redeliver-firing": Row((Ask("post", Needs(EXECUTE, 201)),), use_key_of("firing")),
}
