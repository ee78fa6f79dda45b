"""Reading YAML and JSON that strangers wrote."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.manifests.documents import BadDocument, Document, iterate_scalars, parse_document, parse_manifest
from tests.catalog.manifests import reference_samples as samples
from tests.fixtures.time_limits import run_within_cpu
from tests.lanes import examples


def get_error(text: str) -> BadDocument:
    with pytest.raises(BadDocument) as error:
        parse_document(text, "spec.yaml")
    return error.value


def parse_or_get_error(text: str) -> Document | BadDocument:
    try:
        return parse_document(text, "f")
    except BadDocument as error:
        return error


@pytest.mark.parametrize(
    "text",
    [
        samples.TASK_DEFINITION,
        samples.SERVICE_DEFINITION,
        samples.BROKEN_JSON_SERVICE_DEFINITION,
        samples.SCALABLE_TARGET,
        samples.SCALING_POLICY,
    ],
)
def test_the_samples_of_the_reference_parse(text: str) -> None:
    assert isinstance(parse_document(text, "sample").value, dict)


def test_nulls_and_empty_lists_are_told_apart() -> None:
    value = parse_document(samples.TASK_DEFINITION, "t").value
    assert value["ipcMode"] is None
    assert value["volumes"] == []
    assert (value["memory"], value["cpu"]) == ("512", "256")
    assert value["containerDefinitions"][0]["image"] == "<+primary.artifact.image>"


def test_json_with_a_forgotten_quote_and_tabs_is_read() -> None:
    value = parse_document(samples.BROKEN_JSON_SERVICE_DEFINITION, "s.json").value
    assert value["serviceName"] == "myapp"
    assert value["deploymentConfiguration"] == {"maximumPercent": 100, "minimumHealthyPercent": 0}


def test_every_part_knows_its_line() -> None:
    document = parse_document("a: 1\nb:\n  - c: 2\n    d:\n      e: 3\n  - x\n", "f")
    assert document.get_line(("a",)) == 1
    assert document.get_line(("b",)) == 2
    assert document.get_line(("b", 0, "c")) == 3
    assert document.get_line(("b", 0, "d", "e")) == 5
    assert document.get_line(("b", 1)) == 6
    assert document.get_line(("b", 0, "missing", "deep")) == 3, "the nearest part around it"
    assert document.get_line(()) == 1
    assert Document("made", {}).get_line(("a",)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("True", True),
        ("false", False),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("-5", -5),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("~", None),
        ('"5"', "5"),
        ("!!str 5", "5"),
        ("'null'", "null"),
        ("0o9", "0o9"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    parsed_value = parse_document(f"key: {text}", "f").value["key"]
    assert (type(parsed_value), parsed_value) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3", 3, 'the key "a" is already given on line 1'),
        ("a: &x 1\nb: *x", 2, "aliases"),
        ("a: 1\n---\nb: 2", 2, "only one document"),
        ("a: !!python/object:os.system x", 1, "the tag"),
        ("a: !Ref x", 1, "the tag !Ref is not allowed"),
        ("a: !!set {x}", 1, "the tag"),
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("a:\n\tb: 1", 2, "indent with spaces"),
        ("a: b: c", 1, "second colon"),
        ("ok: 1\na: \x07", 2, "U+0007"),
        ('ok: 1\na: "\\0"', 2, "NUL"),
        ("ok: 1\na: \ud800", 2, "surrogate"),
        ("a: .nan", 1, "not a number"),
        ("a: -.inf", 1, "not a number"),
        ("a: 1e999", 1, "too large"),
        ("a: " + "9" * 5000, 1, "too large"),
        ("? [a]\n: 1", 1, "a key must be a plain word"),
        ("? {a: 1}\n: 1", 1, "a key must be a plain word"),
        ("a: 1\n}", 2, ""),
        ("a: [1, 2", 1, ""),
        ("[" * 100_000, 1, "nested deeper"),
        ("- " * 100_000, 1, "nested deeper"),
        ("? " * 100_000, 1, ""),
        ('{"a":' * 50_000, 1, "nested deeper"),
        ("x: [" + "1," * 100_000 + "]", 1, "more than 20000 values"),
        ("a: " + "x" * 300_000, 1, "larger than 256 KiB"),
    ],
)
def test_what_is_no_document_is_refused_with_line_and_reason(text: str, line: int, message: str) -> None:
    error = run_within_cpu(0.5, lambda: get_error(text))
    assert error.name == "spec.yaml"
    assert error.line >= line
    assert message in error.message
    assert str(error) == f"spec.yaml, line {error.line}, column {error.column}: {error.message}"


def test_json_escapes_beyond_sixteen_bits_are_read() -> None:
    value = {"smile": "\N{GRINNING FACE}", "path": "a\\ud83d", "nul": "\u2028"}
    assert parse_document(json.dumps(value), "f").value == value


def _build_nested_aliases(levels: int) -> str:
    alias_lines = "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(levels))
    return f"a0: &a0 [x, x]\n{alias_lines}"


def test_a_billion_laughs_does_not_even_smile() -> None:
    assert "aliases" in get_error(_build_nested_aliases(6)).message


def test_aliases_of_a_manifest_stand_for_what_their_anchors_name() -> None:
    text = "a: &env\n  - {name: A, value: &v x}\nb: *env\nc: [*v, *env]\nkey *v : no alias\n"
    document = parse_manifest(text, "f")
    env = [{"name": "A", "value": "x"}]
    assert document.value == {"a": env, "b": env, "c": ["x", env], "key *v": "no alias"}
    document.value["a"][0]["value"] = "changed"
    assert document.value["b"] == env, "each is a value of its own"
    assert (document.get_line(("b",)), document.get_line(("b", 0, "name"))) == (3, 2)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: *x\nb: &x 1", 1, "no anchor &x stands before"),
        ("a: &x\n  - *x", 2, "inside its own anchor"),
        ("a: &x {b: {c: *x}}", 1, "inside its own anchor"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, "merge keys"),
        ("a: &x {b: 1}\nc: {b: 2, *x : 3}", 2, "a plain word"),
        ("a: &x b\nc: {*x : 3, b: 2}", 2, 'the key "b" is already given'),
        (_build_nested_aliases(30), 14, "aliases expand to more than 40000 values and keys"),
        ("a0: &a0 []\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}]\n" for n in range(60)), 40, "nested deeper"),
        ("a0: &a0 [" + "x, " * 999 + "]\na: [" + "*a0, " * 30 + "]\n", 2, "more than 20000 values"),
        (f"a: &x {'y' * 200_000}\nb: *x\n", 2, "aliases expand to more than 256 KiB"),
    ],
)
def test_what_aliases_cannot_stand_for_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(BadDocument) as error:
        run_within_cpu(1, lambda: parse_manifest(text, "f"))
    assert (error.value.line, message in error.value.message) == (line, True), error.value


def test_numbers_keep_how_they_are_written_where_their_value_does_not_tell() -> None:
    document = parse_document("a: 012\nb: 1.10\nc: 12\nd: '012'\ne: true\n", "f")
    assert document.number_texts == {("a",): "012", ("b",): "1.10"}


@settings(max_examples=examples(300))
@given(st.text())
def test_any_text_is_a_document_or_a_refusal(text: str) -> None:
    result = parse_or_get_error(text)
    if isinstance(result, BadDocument):
        assert result.line >= 1
        assert result.column >= 1
    else:
        assert all(result.get_line(path) for path, _ in iterate_scalars(result.value))


@settings(max_examples=examples(300))
@given(
    st.lists(st.sampled_from(list("{}[]:,-?&*!|>'\"%@` \n\t#ab1~<+") + ["\\u", "\\", "\ufeff", "---", "..."]))
)
def test_any_mixture_of_yaml_punctuation_is_a_document_or_a_refusal(parts: list[str]) -> None:
    result = parse_or_get_error("".join(parts))
    assert isinstance(result, Document) or result.message


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), children, max_size=4
        )
    ),
    max_leaves=20,
)


@settings(max_examples=examples(200))
@given(st.dictionaries(st.text("abc", min_size=1), plain_json, min_size=1))
def test_whatever_json_writes_is_read_back(value: dict[str, Any]) -> None:
    assert parse_document(json.dumps(value), "f").value == value
    assert parse_document(json.dumps(value, indent="\t", ensure_ascii=True), "f").value == value


@settings(max_examples=examples(100))
@given(
    st.dictionaries(
        st.text("abc", min_size=1),
        st.lists(st.text("ab: -#'\"") | st.integers(-(2**63), 2**63 - 1)),
        min_size=1,
    )
)
def test_whatever_yaml_writes_is_read_back(value: dict[str, Any]) -> None:
    assert parse_document(yaml.safe_dump(value), "f").value == value
