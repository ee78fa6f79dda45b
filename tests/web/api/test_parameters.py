"""A whole number in an address is read in one way everywhere, and refused by its name."""

import pytest
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from web.api.parameters import LARGEST_NUMBER, parse_number
from web.http.problems import BadInput


def build_request(query: str) -> Request:
    return Request(APIRequestFactory().get(f"/?{query}"))


@pytest.mark.parametrize(
    ("query", "number"),
    [("", None), ("page=", None), ("page=0", 0), ("page=007", 7), (f"page={LARGEST_NUMBER}", LARGEST_NUMBER)],
)
def test_a_whole_number_is_read(query: str, number: int | None) -> None:
    assert parse_number(build_request(query), "page") == number


@pytest.mark.parametrize(
    "text", ["-1", "1.0", "x", "१२", "²", "1e3", "%001", " 1", str(LARGEST_NUMBER + 1), "9" * 5000]
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_number(build_request(f"page={text}"), "page")
    assert refused.value.errors == [{"path": "page", "message": "must be a whole number"}]


@pytest.mark.parametrize("text", ["0", "41", "400"])
def test_the_limits_are_told(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_number(build_request(f"page={text}"), "page", least=1, most=40)
    assert refused.value.errors[0]["message"] == "must be a whole number from 1 to 40"
