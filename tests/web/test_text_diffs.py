"""The difference between two texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.time_limits import run_within_cpu
from web import text_diffs
from web.text_diffs import TextDiff, compare_texts

# Texts of few different lines: most of them are repeated.
REPETITIVE = st.lists(st.sampled_from("abcdef"), max_size=40).map(
    lambda lines: "".join(f"{x}\n" for x in lines)
)


def numbered(count: int, **replacements: str) -> str:
    return "".join(f"{replacements.get(f'l{at}', at)}\n" for at in range(1, count + 1))


@pytest.mark.parametrize(
    ("old", "new", "unified"),
    [
        ("a\n", "a\n", ""),
        ("", "a\n", "@@ -0,0 +1,1 @@\n+a"),
        ("a\n", "", "@@ -1,1 +0,0 @@\n-a"),
        ("a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c"),
    ],
)
def test_a_difference_reads_like_a_patch(old: str, new: str, unified: str) -> None:
    assert compare_texts(old, new).unified == unified


def test_far_changes_are_hunks_of_their_own_with_three_lines_around() -> None:
    diff = compare_texts(numbered(40), numbered(40, l10="ten", l30="thirty"))
    assert (len(diff.hunks), diff.added, diff.removed) == (2, 2, 2)
    assert [line.old for line in diff.hunks[0] if line.sign == " "] == [7, 8, 9, 11, 12, 13]
    assert diff.unified.startswith("@@ -7,7 +7,7 @@\n 7\n")


def test_near_changes_share_a_hunk() -> None:
    assert len(compare_texts(numbered(40), numbered(40, l10="ten", l15="fifteen")).hunks) == 1


def test_numbers_follow_both_sides() -> None:
    lines = compare_texts("a\nb\nc\n", "a\nx\ny\nc\n").hunks[0]
    assert [(line.sign, line.old, line.new) for line in lines] == [
        (" ", 1, 1),
        ("-", 2, None),
        ("+", None, 2),
        ("+", None, 3),
        (" ", 3, 4),
    ]


def test_the_oddest_texts_are_compared_in_no_time() -> None:
    many = 30_000
    old = "".join(f"{at}\n" for at in range(many))
    new = "".join(f"{at * 7919 % many}\n" for at in range(many))
    diff = run_within_cpu(2, lambda: compare_texts(old, new))
    assert diff.added == diff.removed > 3000


def test_texts_that_share_only_a_repeated_line_are_compared_in_no_time() -> None:
    old = "".join(f"- name: OLD_{number}\n  secret: true\n" for number in range(1500))
    new = "".join(f"- name: NEW_{number}\n  secret: true\n" for number in range(1500))
    diff = run_within_cpu(1, lambda: compare_texts(old, new))
    assert apply_diff(old, diff) == new


def test_changes_between_repeated_lines_of_a_long_text_are_found_one_by_one() -> None:
    old = "".join(f"- name: N_{number}\n  secret: true\n" for number in range(3000))
    diff = run_within_cpu(1, lambda: compare_texts(old, old.replace("00\n", "00 changed\n")))
    assert (len(diff.hunks), diff.added, diff.removed) == (29, 29, 29)


@pytest.mark.parametrize("steps", [10**6, 300, 40, 0])
@given(old=REPETITIVE, new=REPETITIVE)
def test_an_applied_difference_yields_the_new_text_however_little_is_compared(
    steps: int, old: str, new: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_diffs, "_MOST_STEPS", steps)
        assert apply_diff(old, compare_texts(old, new)) == new


def apply_diff(text: str, diff: TextDiff) -> str:
    """Return the text after the changes; the numbers and lines of the diff have to fit both texts."""
    old, result, taken = text.splitlines(), list[str](), 0
    for hunk in diff.hunks:
        start = next((line.old - 1 for line in hunk if line.old), taken)
        result += old[taken:start]
        taken = start
        for line in hunk:
            if line.old is not None:
                assert (line.old, line.text) == (taken + 1, old[taken])
                taken += 1
            if line.new is not None:
                result.append(line.text)
                assert line.new == len(result)
    return "".join(f"{line}\n" for line in result + old[taken:])
