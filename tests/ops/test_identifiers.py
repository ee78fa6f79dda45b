"""Identifiers that must not come back in the code of the product."""

import ast
from collections.abc import Iterator

import pytest

from tests.ops.test_words import PACKAGES, ROOT

FORBIDDEN = {
    "world",
    "door",
    "doors",
    "open_door",
    "door_for",
    "DoorClosed",
    "parking",
    "parked",
    "parked_until",
    "remember",
    "recall",
    "look_at",
    "look_until",
    "nudged_until",
    "next_look",
    "last_look",
    "look_ahead",
    "is_look_over",
    "take_turn",
    "turning",
    "by_turn",
    "told_in",
    "tell_group",
    "tell_success",
    "judge",
    "judge_deployment",
    "DidNot",
    "NobodyKnows",
    "EngineRollout",
    "PreviewRollout",
    "adopt_undo",
    "undo_words",
    "take_slot",
    "slot_is_held_for",
    "supplies",
    "was_asked",
    "see_service",
    "await_service",
    "ask_approval",
    "value_of",
    "rest_past_read_lag",
    "again_with",
    "seconds_on_purpose",
    "from_written",
    "list_written_outputs",
    "spec_from",
    "secrets_of",
    "plan_of",
    "taken_out_of",
    "goes_to_delegates",
    "hands_secrets_to_aws",
    "pause_before",
    "had_ended_well",
    "known_values",
    "forget_claims",
    "forget_changes",
    "forget_events",
    "keep_event",
    "changes_only_another",
    "still_ours",
    "columns_at_release",
    "mask_of",
    "steps_of",
    "steps_in",
    "steps_until",
    "flow_of",
    "actions_of",
    "calls_of",
    "claims_of",
    "next_of",
    "is_beside",
    "with_kept",
    "texts_by_path",
    "people_until",
    "wait_for_people",
    "hand_over",
    "keep_call",
    "remote_for",
    "said_by",
    "healthy_of",
    "groups_of",
    "strangers",
    "leads_as",
    "known_groups",
    "group_words",
    "names_others",
    "not_yet_known",
    "go_on",
    "is_errand",
    "errand",
    "ask_terraform",
    "adopt",
    "outlook",
    "relay",
    "of_quota",
    "asked_to_end",
    "tell",
    "tell_rest",
    "tell_of",
    "having",
    "look_after",
    "look_for_tasks",
    "most_since_last_asked",
    "takes_tasks",
    "is_told_to_drain",
    "refuse_late",
    "gave_up",
    "wish",
    "SessionEnded",
    "script_environment",
    "list_output_names",
    "OneDelegate",
    "filter_known_stopped",
    "let_go",
    "seen_key",
    "remove_files_of",
}

# Words that the remaining packages still use; these packages must not use them again.
RETIRED = {"asked", "mine", "news", "told", "wanted"}
CLEAN_PACKAGES = (
    "aws",
    "catalog",
    "config",
    "connectors",
    "delegates",
    "gitsync",
    "guards",
    "inventory",
    "notifications",
    "ops",
    "policies",
    "sandbox",
)
# Identifiers that are keys of the REST API.
API_KEYS = {"inventory/api/drift.py": {"told"}}


def list_identifiers(source: str) -> Iterator[str]:
    """Yield the names that a module defines or uses: names, attributes, arguments and definitions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.arg, ast.keyword)):
            yield node.arg or ""
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def test_every_sort_of_identifier_is_listed() -> None:
    source = "class A:\n    def b(self, c): return d.e(f=1)\n"
    assert {"A", "b", "c", "d", "e", "f"} <= set(list_identifiers(source))


@pytest.mark.parametrize("package", PACKAGES)
def test_identifiers_use_no_forbidden_word(package: str) -> None:
    violations = {
        str(path): words
        for path in (ROOT / package).rglob("*.py")
        if (words := FORBIDDEN.intersection(list_identifiers(path.read_text())))
    }
    assert violations == {}


@pytest.mark.parametrize("package", CLEAN_PACKAGES)
def test_clean_packages_use_no_retired_word(package: str) -> None:
    violations = {
        name: words
        for path in (ROOT / package).rglob("*.py")
        if (name := str(path.relative_to(ROOT)))
        and (words := RETIRED.intersection(list_identifiers(path.read_text())) - API_KEYS.get(name, set()))
    }
    assert violations == {}
