"""Addresses of policy rules, with all that can be asked of them."""

from typing import Any

from tests.api.requests import Ask, Row, add_scope, allow_get, get, use_key_of
from tests.api.required_access import Anywhere, Lists, Makes, Needs
from tests.api.sample_project import World


def _body(world: World) -> dict[str, Any]:
    condition, message = "artifact.tag != 'latest'", "Choose a version."
    return {"name": "X", "subject": "Run", "condition": condition, "message": message, "effect": "WARN"}


def _new_body(world: World) -> dict[str, Any]:
    return add_scope(identifier="x", **_body(world))(world)


def _form(world: World) -> dict[str, Any]:
    return {**_body(world), "in_scope": world.scope.path, "is_enabled": "on"}


def _edit_form(world: World) -> dict[str, Any]:
    return {**_body(world), "version": 1}


def _bench_form(world: World) -> dict[str, Any]:
    return {"condition": "true", "document": "{}"}


def _evaluation_body(world: World) -> dict[str, Any]:
    return {"subject": "Run", "condition": "true", "document": {}}


POLICIES: dict[str, Row] = {
    "policy-rules": allow_get(Lists("core_policyrule_view")),
    "policy-rule": allow_get(Needs("core_policyrule_view"), use_key_of("policy_rule")),
    "new-policy-rule": Row(
        (
            get(Anywhere("core_policyrule_edit")),
            Ask("post", Makes("core_policyrule_edit"), body=_form, is_form=True),
        )
    ),
    "edit-policy-rule": Row(
        (
            get(Needs("core_policyrule_edit")),
            Ask("post", Needs("core_policyrule_edit", 302), body=_edit_form, is_form=True),
            Ask("post", Needs("core_policyrule_edit", 400), is_form=True),
        ),
        use_key_of("policy_rule"),
    ),
    "delete-policy-rule": Row(
        (
            get(Needs("core_policyrule_delete")),
            Ask("post", Needs("core_policyrule_delete", 302), is_form=True),
        ),
        use_key_of("policy_rule"),
    ),
    "test-policy-condition": Row(
        (
            get(Anywhere("core_policyrule_view")),
            Ask("post", Anywhere("core_policyrule_view"), body=_bench_form, is_form=True),
        )
    ),
    "api-policy-evaluation": Row((Ask("post", Anywhere("core_policyrule_view"), body=_evaluation_body),)),
    "api-policy-rules": Row(
        (
            get(Lists("core_policyrule_view")),
            Ask("post", Needs("core_policyrule_edit", 201), body=_new_body),
        )
    ),
    "api-policy-rule": Row(
        (
            get(Needs("core_policyrule_view")),
            Ask("put", Needs("core_policyrule_edit"), body=_body),
            Ask("delete", Needs("core_policyrule_delete", 204)),
        ),
        use_key_of("policy_rule"),
    ),
}
