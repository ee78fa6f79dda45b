"""The difference between two texts."""

import pytest

from tests.fixtures.time_limits import run_within_cpu
from web.text_diffs import MOST_COMPARED_LINES, compare_texts


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
    many = MOST_COMPARED_LINES * 10
    old = "".join(f"{at}\n" for at in range(many))
    new = "".join(f"{at * 7919 % many}\n" for at in range(many))
    diff = run_within_cpu(2, lambda: compare_texts(old, new))
    assert diff.added == diff.removed > MOST_COMPARED_LINES
