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


@pytest.mark.parametrize("response", HOSTILE)
def test_what_is_no_tag_is_never_listed(response: dict[str, Any]) -> None:
    tag_list = fetch_all_tags(lambda _: trim_result(LIST_TAGS, response), "shop/web")
    assert tag_list.names == []


def test_a_moment_that_is_none_is_left_out() -> None:
    response = {"imageDetails": [{"imageTags": ["v1"], "imagePushedAt": "<script>"}]}
    assert [tag.pushed_at for tag in fetch_all_tags(lambda _: response, "shop/web").tags] == [""]
    response["imageDetails"][0]["imagePushedAt"] = "0001-01-01T00:00:00+14:00"
    assert [tag.pushed_at for tag in fetch_all_tags(lambda _: response, "shop/web").tags] == [""]


def test_the_newest_tag_is_first_in_the_hour_that_autumn_repeats() -> None:
    # A delegate tells the time of its zone, which changes its offset.
    pushes = {"v8": "2026-10-25T02:50:00+02:00", "v9": "2026-10-25T02:10:00+01:00"}
    response = {
        "imageDetails": [{"imageTags": [tag], "imagePushedAt": moment} for tag, moment in pushes.items()]
    }
    assert fetch_all_tags(lambda _: response, "shop/web").names == ["v9", "v8"]


def test_somebody_who_always_has_another_page_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PAGES", 3)
    cursors: list[str] = []

    def list_page(params: dict[str, Any]) -> dict[str, Any]:
        cursors.append(str(params.get("after", "")))
        return {"tags": ["v1"], "nextToken": f"page {len(cursors)}"}

    tag_list = fetch_all_tags(list_page, "shop/web")
    assert (tag_list.names, tag_list.is_cut, cursors) == (["v1"], True, ["", "page 1", "page 2"])


@pytest.mark.parametrize(
    ("response", "digest"),
    [
        ({"digest": SHA}, SHA),
        ({"imageDetails": [{"imageDigest": SHA}]}, SHA),
        ({"digest": f"{SHA} --privileged"}, ""),
        ({"digest": "latest"}, ""),
        ({"imageDetails": "x"}, ""),
        ({}, ""),
    ],
)
def test_only_what_is_a_digest_is_pinned(response: dict[str, Any], digest: str) -> None:
    assert parse_digest(response) == digest
