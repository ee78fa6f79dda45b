"""What is made of the answers of registries: they come from programs of others."""

from typing import Any

import pytest

from delegates.access import images
from delegates.access.images import fetch_all_tags, parse_digest
from delegates.access.site_calls import LIST_TAGS, trim_result

SHA = f"sha256:{'a' * 64}"
HOSTILE = [
    {"tags": "latest"},
    {"tags": None},
    {"tags": [None, 1, {"a": 1}, "<b>x</b>", "\u00b2", "9" * 5000, "a\x00b", "-x", ""]},
    {"imageDetails": "all"},
    {"imageDetails": [None, "x", {"imageTags": "v1"}, {"imageTags": [None, "a b"]}]},
    {"tags": [], "nextToken": {"a": 1}},
]


@pytest.mark.parametrize("answer", HOSTILE)
def test_what_is_no_tag_is_never_listed(answer: dict[str, Any]) -> None:
    found = fetch_all_tags(lambda _: trim_result(LIST_TAGS, answer), "shop/web")
    assert found.names == []


def test_a_moment_that_is_none_is_left_out() -> None:
    answer = {"imageDetails": [{"imageTags": ["v1"], "imagePushedAt": "<script>"}]}
    assert [one.pushed_at for one in fetch_all_tags(lambda _: answer, "shop/web").tags] == [""]


def test_somebody_who_always_has_another_page_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PAGES", 3)
    asked: list[str] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(str(params.get("after", "")))
        return {"tags": ["v1"], "nextToken": f"page {len(asked)}"}

    found = fetch_all_tags(answer, "shop/web")
    assert (found.names, found.is_cut, asked) == (["v1"], True, ["", "page 1", "page 2"])


@pytest.mark.parametrize(
    ("answer", "digest"),
    [
        ({"digest": SHA}, SHA),
        ({"imageDetails": [{"imageDigest": SHA}]}, SHA),
        ({"digest": f"{SHA} --privileged"}, ""),
        ({"digest": "latest"}, ""),
        ({"imageDetails": "x"}, ""),
        ({}, ""),
    ],
)
def test_only_what_is_a_digest_is_pinned(answer: dict[str, Any], digest: str) -> None:
    assert parse_digest(answer) == digest
