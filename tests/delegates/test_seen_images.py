"""What is made of the answers of registries: they come from programs of others."""

from typing import Any

import pytest

from delegates import images
from delegates.errands import LIST_TAGS, kept_of
from delegates.images import digest_of, every_tag

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
    found = every_tag(lambda _: kept_of(LIST_TAGS, answer), "shop/web")
    assert found.names == []


def test_a_moment_that_is_none_is_left_out() -> None:
    answer = {"imageDetails": [{"imageTags": ["v1"], "imagePushedAt": "<script>"}]}
    assert [one.pushed_at for one in every_tag(lambda _: answer, "shop/web").tags] == [""]


def test_somebody_who_always_has_another_page_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MOST_PAGES", 3)
    asked: list[str] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(str(params.get("after", "")))
        return {"tags": ["v1"], "nextToken": f"page {len(asked)}"}

    found = every_tag(answer, "shop/web")
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
    assert digest_of(answer) == digest
