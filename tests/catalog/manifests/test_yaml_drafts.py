"""Changes to a YAML text: only what is changed is written anew."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.manifests.yaml_drafts import NotEditable, YamlDraft, is_identical, render_value
from guards.yaml_parser import parse_yaml
from tests.lanes import examples

TEXT = """\
# The head stays.
pipeline:
  identifier: web   # never changes
  name: 'Web'
  stages:
    # First of all.
    - stage:
        identifier: one
        spec:
          steps:
            - step:
                type: "A"   # why A
                spec: {a: 1, b: [x, y]}
            # About B.
            - step:
                type: B
                script: |
                  line one
                    line two

            -   step:
                  type: C
          rollbackSteps: []
    - stage:
        identifier: two
# The tail too.
"""


def get_stage(draft: YamlDraft, number: int = 0) -> Any:
    return draft.value["pipeline"]["stages"][number]["stage"]


def test_nothing_changed_is_nothing_written():
    assert YamlDraft(TEXT).render() == TEXT


def test_a_scalar_keeps_its_quotes_and_its_comment():
    draft = YamlDraft(TEXT)
    draft.value["pipeline"]["name"] = "It's new"
    get_stage(draft)["spec"]["steps"][0]["step"]["type"] = "Z"
    assert draft.render() == TEXT.replace("'Web'", "'It''s new'").replace('"A"', '"Z"')


def test_items_change_places_with_the_comments_above_them():
    draft = YamlDraft(TEXT)
    steps = get_stage(draft)["spec"]["steps"]
    steps.insert(0, steps.pop(1))
    rendered = draft.render()
    assert rendered.index("# About B.") < rendered.index("type: B") < rendered.index('type: "A"   # why A')
    assert "                    line two\n" in rendered
    assert sorted(rendered.split("\n")) == sorted(TEXT.split("\n"))


def test_what_is_wrapped_is_indented_and_otherwise_as_it_was():
    draft = YamlDraft(TEXT)
    steps = get_stage(draft)["spec"]["steps"]
    steps[:2] = [{"parallel": steps[:2]}]
    rendered = draft.render()
    assert (
        '            - parallel:\n                - step:\n                    type: "A"   # why A\n'
        in rendered
    )
    assert "                # About B.\n                - step:\n" in rendered
    assert parse_yaml(rendered).value == draft.value


def test_what_is_added_and_removed_leaves_the_rest_alone():
    draft = YamlDraft(TEXT)
    spec = get_stage(draft)["spec"]
    spec["rollbackSteps"].append({"step": {"type": "Undo", "spec": {"text": "yes", "number": "1e3"}}})
    del spec["steps"][2]
    spec["steps"][1]["step"]["script"] = "other\nlines\n"
    draft.value["pipeline"]["stages"].append({"stage": {"identifier": "three"}})
    rendered = draft.render()
    assert parse_yaml(rendered).value == draft.value
    assert "                script: |\n                  other\n                  lines\n" in rendered
    for comment in ("# The head stays.", "# never changes", "# First of all.", "# why A", "# About B."):
        assert comment in rendered
    assert "spec: {a: 1, b: [x, y]}" in rendered


def test_what_is_appended_comes_before_comments_that_are_less_far_in():
    draft = YamlDraft("a:\n  - step: 1\n    # deeper\n\n# end\n")
    draft.value["a"].append({"step": 2})
    assert draft.render() == "a:\n  - step: 1\n    # deeper\n\n  - step: 2\n# end\n"


def test_a_text_that_is_no_yaml_says_where():
    with pytest.raises(NotEditable, match="Line 1"):
        YamlDraft("a: b: c")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_line_separators_inside_a_text_stay_where_they_are(separator: str):
    text = f'a:\n  note: "one{separator * 9}two"\n  name: old # ours\n'
    draft = YamlDraft(text)
    draft.value["a"]["name"] = "new"
    assert draft.render() == text.replace("old", "new")


def test_line_separators_that_end_lines_are_left_to_the_text():
    with pytest.raises(NotEditable, match="change it in the YAML"):
        YamlDraft("a: one\u2028b: two\n")


def test_line_ends_of_old_computers_are_line_ends():
    draft = YamlDraft("a:\r  - name: old\r  - name: two\r")
    draft.value["a"][0]["name"] = "new"
    assert draft.render() == "a:\n  - name: new\n  - name: two\n"


def test_a_key_with_a_question_mark_is_left_to_the_text():
    draft = YamlDraft("a:\n  ? name\n  : old\n")
    draft.value["a"]["name"] = "new"
    with pytest.raises(NotEditable, match="change it in the YAML"):
        draft.render()


def test_a_text_that_looks_like_a_number_stays_a_text():
    for value in (["12e34567", "1234e56", "0o17", "1.5", "text"], {"a": "1e5"}):
        assert parse_yaml(render_value(value)).value == value


def test_one_is_not_true():
    assert not is_identical(1, True)
    assert not is_identical({"a": 1, "b": 2}, {"b": 2, "a": 1})


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=9),
    st.sampled_from(
        ["1e3", "yes", "# no", "a: b", "<+a.b>", "x\ny\n", "x\n\n y", " x", "-", "'", '"', "|", ""]
    ),
)
KEYS = st.sampled_from(["step", "spec", "name", "parallel", "steps", "on", "a b"])
TREES = st.recursive(
    SCALARS,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(KEYS, children, max_size=3),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(KEYS, TREES, min_size=1, max_size=4)


def list_containers(value: Any) -> list[Any]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    nested_containers = [value] if isinstance(value, dict | list) else []
    return nested_containers + [container for child in children for container in list_containers(child)]


@settings(max_examples=examples(60))
@given(MAPPINGS, TREES, st.data())
def test_whatever_is_changed_means_what_it_was_changed_to(before: Any, new: Any, data: st.DataObject):
    first = YamlDraft("a: 1\n")
    first.value["a"] = before
    text = (
        "# top\n" + "\n# between\n".join(first.render().split("\n", 1))
        if data.draw(st.booleans())
        else first.render()
    )
    draft = YamlDraft(text)
    candidates = list_containers(draft.value)
    container = candidates[data.draw(st.integers(0, len(candidates) - 1))]
    if isinstance(container, list):
        container.insert(data.draw(st.integers(0, len(container))), new)
        if data.draw(st.booleans()):
            container.reverse()
    else:
        container["name"] = new
    assert is_identical(parse_yaml(draft.render()).value, draft.value)
