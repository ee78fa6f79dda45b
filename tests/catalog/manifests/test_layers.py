"""Laying an override over a manifest: what counts, who said it, and on which line."""

from typing import Any

import pytest

from catalog.manifests.checks import check_manifest
from catalog.manifests.documents import BadDocument, parse_document
from catalog.manifests.kinds import SCALABLE_TARGET, SCALING_POLICY, TASK_DEFINITION
from catalog.manifests.layers import ManifestLayer, MergedDocument, merge_layers, merge_layers_of_kind
from tests.fixtures.time_limits import run_within_cpu

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


def build_layers(*texts: tuple[str, str], mode: str = "merge") -> list[ManifestLayer]:
    first, *remaining_texts = texts
    return [
        ManifestLayer(first[0], parse_document(first[1], f"{first[0]}.yaml")),
        *(
            ManifestLayer(level, parse_document(text, f"{level}.yaml"), mode)
            for level, text in remaining_texts
        ),
    ]


def merge_override(
    override: str, *, service_text: str = SERVICE, kind: str = TASK_DEFINITION
) -> MergedDocument:
    return merge_layers(kind, build_layers(("service", service_text), ("environment", override)))


def get_container(merged: MergedDocument, name: str) -> Any:
    return next(entry for entry in merged.document.value["containerDefinitions"] if entry["name"] == name)


def get_level(merged: MergedDocument, path: tuple[str | int, ...]) -> str:
    """Return the level that set the value at a path, or at its nearest ancestor."""
    while path and path not in merged.parts:
        path = path[:-1]
    return merged.parts[path].level


def test_mappings_are_merged_and_everything_else_of_the_service_stays():
    merged = merge_override("cpu: '1024'\nmemory: '2048'\n")
    assert merged.document.value["cpu"] == "1024"
    assert merged.document.value["memory"] == "2048"
    assert merged.document.value["family"] == "web"
    assert merged.parts["cpu",].level == "environment"
    assert merged.parts["family",].level == "service"
    assert [(value.level, value.value) for value in merged.parts["cpu",].before] == [("service", "256")]


def test_null_takes_a_key_out_and_a_stronger_layer_may_bring_it_back():
    layer_texts = (
        ("service", SERVICE),
        ("environment", "taskRoleArn:\n"),
        ("infrastructure", "taskRoleArn: other\n"),
    )
    removed = merge_layers(TASK_DEFINITION, build_layers(*layer_texts[:2]))
    assert "taskRoleArn" not in removed.document.value
    assert removed.parts["taskRoleArn",].is_removed
    restored = merge_layers(TASK_DEFINITION, build_layers(*layer_texts))
    assert restored.document.value["taskRoleArn"] == "other"
    assert not restored.parts["taskRoleArn",].is_removed


def test_containers_and_their_variables_are_merged_by_name():
    merged = merge_override(
        "containerDefinitions:\n  - name: app\n    environment:\n      - name: LEVEL\n        value: debug\n"
        "      - name: NEW\n        value: x\n"
    )
    app = get_container(merged, "app")
    assert app["environment"] == [
        {"name": "LEVEL", "value": "debug"},
        {"name": "DEBUG", "value": "yes"},
        {"name": "NEW", "value": "x"},
    ]
    assert app["image"] == "nginx"
    assert get_container(merged, "proxy") == {"name": "proxy", "image": "envoy"}
    assert get_level(merged, ("containerDefinitions", 0, "environment", 2)) == "environment"


def test_other_lists_are_replaced():
    merged = merge_override("containerDefinitions:\n  - name: app\n    command: [serve]\n")
    assert get_container(merged, "app")["command"] == ["serve"]


def test_an_entry_is_taken_out_by_saying_so():
    merged = merge_override(
        "containerDefinitions:\n  - {name: proxy, $remove: true}\n  - {name: unknown, $remove: true}\n"
        "  - name: app\n    environment: [{name: DEBUG, $remove: true}]\n"
    )
    assert [entry["name"] for entry in merged.document.value["containerDefinitions"]] == ["app"]
    assert get_container(merged, "app")["environment"] == [{"name": "LEVEL", "value": "info"}]


def test_a_removal_that_is_not_true_is_refused_with_its_place():
    with pytest.raises(BadDocument, match=r"environment.yaml, line 3, column 5: .*can only be true"):
        merge_override("containerDefinitions:\n  - name: proxy\n    $remove: please\n")


def test_a_layer_that_replaces_hides_those_below_it():
    layer_texts = (("service", SERVICE), ("environment", "family: other\ncpu:\n"))
    merged = merge_layers(TASK_DEFINITION, build_layers(*layer_texts, mode="replace"))
    assert merged.document.value == {"family": "other", "cpu": None}
    assert {part.level for part in merged.parts.values()} == {"environment"}


def test_a_problem_names_the_file_and_line_that_it_came_from():
    manifest = check_manifest(TASK_DEFINITION, merge_override("cpu: '256'\nnetworkMode: magic\n").document)
    assert [(problem.file, problem.line, problem.path) for problem in manifest.problems] == [
        ("environment.yaml", 2, "networkMode")
    ]
    service_manifest = check_manifest(
        TASK_DEFINITION, merge_override("cpu: '256'\n", service_text=SERVICE + "nonsense: 1\n").document
    )
    assert ("service.yaml", 15) in [(problem.file, problem.line) for problem in service_manifest.problems]


def test_what_an_override_took_out_although_it_is_needed_is_told_at_its_line():
    manifest = check_manifest(TASK_DEFINITION, merge_override("cpu: '256'\nfamily: null\n").document)
    assert [(problem.file, problem.line) for problem in manifest.problems] == [("environment.yaml", 2)]


def test_auto_scaling_manifests_are_merged_whatever_the_case_of_their_first_letters():
    merged = merge_override(
        "maxCapacity: 9\n", service_text="MinCapacity: 1\nMaxCapacity: 3\n", kind=SCALABLE_TARGET
    )
    assert merged.document.value == {"MinCapacity": 1, "MaxCapacity": 9}


def test_scaling_policies_are_matched_by_name_added_and_taken_out():
    layer_texts = [
        ("service", "policyName: cpu\npolicyType: TargetTrackingScaling\n"),
        ("service", "policyName: memory\n"),
        ("environment", "PolicyName: cpu\npolicyType: StepScaling\n"),
        ("environment", "policyName: requests\n"),
        ("infrastructure", "policyName: memory\n$remove: true\n"),
    ]
    documents = merge_layers_of_kind(SCALING_POLICY, build_layers(*layer_texts))
    assert [merged.document.value for merged in documents] == [
        {"policyName": "cpu", "policyType": "StepScaling"},
        {"policyName": "requests"},
    ]


def test_large_lists_are_merged_in_no_time():
    def build_text(value: str) -> str:
        entries = "".join(f"      - {{name: V{n}, value: {value}}}\n" for n in range(4000))
        return f"containerDefinitions:\n  - name: app\n    environment:\n{entries}"

    text_layers = build_layers(("service", build_text("a")), ("environment", build_text("b")))
    merged = run_within_cpu(2, lambda: merge_layers(TASK_DEFINITION, text_layers))
    assert {entry["value"] for entry in get_container(merged, "app")["environment"]} == {"b"}


def test_entries_without_a_name_and_second_ones_of_a_name_stay():
    service_text = "containerDefinitions: [{image: a}, {name: x, image: b}, {name: x, image: c}]\n"
    merged = merge_override(
        "containerDefinitions: [{image: d}, {name: x, image: e}]\n", service_text=service_text
    )
    assert [entry["image"] for entry in merged.document.value["containerDefinitions"]] == ["a", "e", "c", "d"]


def test_a_scalar_that_is_written_otherwise_overrides_an_equal_one():
    base = "family: web\nvolumes: [{name: a, value: 1.1}]\ncpu: 1\n"
    over = "family: web\nvolumes: [{name: a, value: 1.10}]\ncpu: true\n"
    for lower, upper in ((base, over), (over, base)):
        merged = merge_layers(TASK_DEFINITION, build_layers(("service", lower), ("environment", upper)))
        alone = parse_document(upper, "alone.yaml")
        assert merged.document.number_texts == alone.number_texts
        assert merged.document.value["cpu"] is alone.value["cpu"]
        assert get_level(merged, ("cpu",)) == "environment"
        assert get_level(merged, ("family",)) == "service"
