"""Laying an override over a manifest: what counts, who said it, and on which line."""

from typing import Any

import pytest

from catalog.manifests.checks import check_manifest
from catalog.manifests.documents import BadDocument, parse_document
from catalog.manifests.kinds import SCALABLE_TARGET, SCALING_POLICY, TASK_DEFINITION
from catalog.manifests.layers import ManifestLayer, MergedDocument, merge_layers, merge_layers_of_kind
from tests.fixtures.time_limits import within_cpu

SERVICE = """\
family: web
cpu: '256'
taskRoleArn: arn:aws:iam::123456789012:role/web
containerDefinitions:
  - name: app
    image: nginx
    command: [serve, --quiet]
    environment:
      - name: LEVEL
        value: info
      - name: DEBUG
        value: 'yes'
  - name: proxy
    image: envoy
"""


def layers(*texts: tuple[str, str], mode: str = "merge") -> list[ManifestLayer]:
    first, *others = texts
    return [
        ManifestLayer(first[0], parse_document(first[1], f"{first[0]}.yaml")),
        *(ManifestLayer(level, parse_document(text, f"{level}.yaml"), mode) for level, text in others),
    ]


def laid(override: str, *, over: str = SERVICE, kind: str = TASK_DEFINITION) -> MergedDocument:
    return merge_layers(kind, layers(("service", over), ("environment", override)))


def container(found: MergedDocument, name: str) -> Any:
    return next(one for one in found.document.value["containerDefinitions"] if one["name"] == name)


def get_level(merged: MergedDocument, path: tuple[str | int, ...]) -> str:
    """Return the level that set the value at a path, or at its nearest ancestor."""
    while path and path not in merged.parts:
        path = path[:-1]
    return merged.parts[path].level


def test_mappings_are_merged_and_everything_else_of_the_service_stays():
    found = laid("cpu: '1024'\nmemory: '2048'\n")
    assert found.document.value["cpu"] == "1024"
    assert found.document.value["memory"] == "2048"
    assert found.document.value["family"] == "web"
    assert found.parts["cpu",].level == "environment"
    assert found.parts["family",].level == "service"
    assert [(one.level, one.value) for one in found.parts["cpu",].before] == [("service", "256")]


def test_null_takes_a_key_out_and_a_stronger_layer_may_bring_it_back():
    texts = (
        ("service", SERVICE),
        ("environment", "taskRoleArn:\n"),
        ("infrastructure", "taskRoleArn: other\n"),
    )
    without = merge_layers(TASK_DEFINITION, layers(*texts[:2]))
    assert "taskRoleArn" not in without.document.value
    assert without.parts["taskRoleArn",].is_removed
    again = merge_layers(TASK_DEFINITION, layers(*texts))
    assert again.document.value["taskRoleArn"] == "other"
    assert not again.parts["taskRoleArn",].is_removed


def test_containers_and_their_variables_are_merged_by_name():
    found = laid(
        "containerDefinitions:\n  - name: app\n    environment:\n      - name: LEVEL\n        value: debug\n"
        "      - name: NEW\n        value: x\n"
    )
    app = container(found, "app")
    assert app["environment"] == [
        {"name": "LEVEL", "value": "debug"},
        {"name": "DEBUG", "value": "yes"},
        {"name": "NEW", "value": "x"},
    ]
    assert app["image"] == "nginx"
    assert container(found, "proxy") == {"name": "proxy", "image": "envoy"}
    assert get_level(found, ("containerDefinitions", 0, "environment", 2)) == "environment"


def test_other_lists_are_replaced():
    found = laid("containerDefinitions:\n  - name: app\n    command: [serve]\n")
    assert container(found, "app")["command"] == ["serve"]


def test_an_entry_is_taken_out_by_saying_so():
    found = laid(
        "containerDefinitions:\n  - {name: proxy, $remove: true}\n  - {name: unknown, $remove: true}\n"
        "  - name: app\n    environment: [{name: DEBUG, $remove: true}]\n"
    )
    assert [one["name"] for one in found.document.value["containerDefinitions"]] == ["app"]
    assert container(found, "app")["environment"] == [{"name": "LEVEL", "value": "info"}]


def test_a_removal_that_is_not_true_is_refused_with_its_place():
    with pytest.raises(BadDocument, match=r"environment.yaml, line 3, column 5: .*can only be true"):
        laid("containerDefinitions:\n  - name: proxy\n    $remove: please\n")


def test_a_layer_that_replaces_hides_those_below_it():
    texts = (("service", SERVICE), ("environment", "family: other\ncpu:\n"))
    found = merge_layers(TASK_DEFINITION, layers(*texts, mode="replace"))
    assert found.document.value == {"family": "other", "cpu": None}
    assert {part.level for part in found.parts.values()} == {"environment"}


def test_a_problem_names_the_file_and_line_that_it_came_from():
    found = check_manifest(TASK_DEFINITION, laid("cpu: '256'\nnetworkMode: magic\n").document)
    assert [(one.file, one.line, one.path) for one in found.problems] == [
        ("environment.yaml", 2, "networkMode")
    ]
    of_service = check_manifest(
        TASK_DEFINITION, laid("cpu: '256'\n", over=SERVICE + "nonsense: 1\n").document
    )
    assert ("service.yaml", 15) in [(one.file, one.line) for one in of_service.problems]


def test_what_an_override_took_out_although_it_is_needed_is_told_at_its_line():
    found = check_manifest(TASK_DEFINITION, laid("cpu: '256'\nfamily: null\n").document)
    assert [(one.file, one.line) for one in found.problems] == [("environment.yaml", 2)]


def test_auto_scaling_manifests_are_merged_whatever_the_case_of_their_first_letters():
    found = laid("maxCapacity: 9\n", over="MinCapacity: 1\nMaxCapacity: 3\n", kind=SCALABLE_TARGET)
    assert found.document.value == {"MinCapacity": 1, "MaxCapacity": 9}


def test_scaling_policies_are_matched_by_name_added_and_taken_out():
    texts = [
        ("service", "policyName: cpu\npolicyType: TargetTrackingScaling\n"),
        ("service", "policyName: memory\n"),
        ("environment", "PolicyName: cpu\npolicyType: StepScaling\n"),
        ("environment", "policyName: requests\n"),
        ("infrastructure", "policyName: memory\n$remove: true\n"),
    ]
    found = merge_layers_of_kind(SCALING_POLICY, layers(*texts))
    assert [one.document.value for one in found] == [
        {"policyName": "cpu", "policyType": "StepScaling"},
        {"policyName": "requests"},
    ]


def test_large_lists_are_merged_in_no_time():
    def text(value: str) -> str:
        entries = "".join(f"      - {{name: V{n}, value: {value}}}\n" for n in range(4000))
        return f"containerDefinitions:\n  - name: app\n    environment:\n{entries}"

    read = layers(("service", text("a")), ("environment", text("b")))
    found = within_cpu(2, lambda: merge_layers(TASK_DEFINITION, read))
    assert {one["value"] for one in container(found, "app")["environment"]} == {"b"}


def test_entries_without_a_name_and_second_ones_of_a_name_stay():
    over = "containerDefinitions: [{image: a}, {name: x, image: b}, {name: x, image: c}]\n"
    found = laid("containerDefinitions: [{image: d}, {name: x, image: e}]\n", over=over)
    assert [one["image"] for one in found.document.value["containerDefinitions"]] == ["a", "e", "c", "d"]
