"""Addresses into the log of an execution: a text to find, and the line to open, without any script."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from deployments import log
from deployments.log import store_lines
from deployments.models import Execution
from guards.masks import SecretMask
from rbac.models import Scope, User
from tests.api.sample_project import make_world
from tests.deployments.log.conftest import build_lines

pytestmark = pytest.mark.django_db
Load = Callable[..., str]
ROW = re.compile(
    r'<div class="log-row (?P<level>[\w ]+)" id="L(?P<number>\d+)">'
    r'.*?<span class="x">(?P<text>.*?)</span></div>'
)


@pytest.fixture
def execution(project: Scope, admin: User) -> Execution:
    execution = make_world(project, admin, admin).execution
    execution.chunks.all().delete()
    Execution.objects.filter(pk=execution.pk).update(next_line_number=1)
    return execution


@pytest.fixture
def load(execution: Execution, admin: User) -> Load:
    client = Client()
    client.force_login(admin)

    def load_page(**query: str | int) -> str:
        return client.get(reverse("execution", args=[execution.pk]), query).content.decode()

    return load_page


def list_numbers(page: str) -> list[int]:
    return [int(match["number"]) for match in ROW.finditer(page)]


def list_links(page: str) -> dict[str, str]:
    """Return the links of the lines from the server, by their text."""
    start = page.index("data-log-served")
    links = re.findall(r'<a href="([^"]*)">([^<]+)</a>', page[start : page.index("data-log-marks")])
    return {title: unescape(url) for url, title in links}


def follow(load: Load, url: str) -> str:
    query, _, _ = url.removeprefix("?").partition("#")
    return load(**dict(pair.split("=") for pair in query.split("&") if pair))


def test_a_text_is_found_in_the_whole_log_with_links_to_its_lines(execution: Execution, load: Load):
    texts = (f"needle {number}" if number % 400 == 0 else f"line {number}" for number in range(1, 2001))
    store_lines(execution.pk, build_lines(*texts))
    page = load(find="NEEDLE")
    assert list_numbers(page) == [400, 800, 1200, 1600, 2000]
    assert "<strong>5 matches</strong> for “NEEDLE”" in page
    assert '<a class="n" href="?find=NEEDLE&amp;line=800#L800">800</a><span class="t">deploy</span>' in page
    assert "<mark>needle</mark> 800" in page


@pytest.mark.parametrize(
    ("text", "shown_text"),
    [
        ("see \x1b]8;;https://a.example\x07the link\x1b]8;;\x07 of the end", "see the link of the end"),
        ("\x1b]0;a title\x1b\\the end", "the end"),
        ("\x1b]0;never closed, the end", "⟨U+001B⟩]0;never closed, the end"),
    ],
)
def test_the_text_after_a_link_or_a_title_of_a_terminal_is_shown_and_found(
    execution: Execution, load: Load, text: str, shown_text: str
):
    store_lines(execution.pk, build_lines(text))
    assert [match["text"] for match in ROW.finditer(load())] == [shown_text]
    assert list_numbers(load(find="the end")) == [1]


def test_marks_that_reorder_or_break_a_line_are_shown(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines("one\u2028two\u061c"))
    assert [match["text"] for match in ROW.finditer(load())] == ["one⟨U+2028⟩two⟨U+061C⟩"]


def test_matches_of_all_steps_are_listed(execution: Execution, load: Load):
    for step in ("build", "deploy"):
        store_lines(execution.pk, build_lines("a needle", "hay", step=step))
    page = load(find="needle")
    assert re.findall(r'<span class="t">(\w+)</span>', page) == ["build", "deploy"]


def test_many_matches_are_shown_a_hundred_at_a_time(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines(*(f"needle {number}" for number in range(250))))
    page = load(find="needle")
    assert "<strong>250 matches</strong> for “needle”, 1 to 100 shown." in page
    assert "Previous matches" not in list_links(page)
    second = follow(load, list_links(page)["Next matches"])
    assert list_numbers(second) == list(range(101, 201))
    assert follow(load, list_links(second)["Previous matches"]).count("<mark>") == 100
    last = follow(load, list_links(second)["Next matches"])
    assert list_numbers(last) == list(range(201, 251))
    assert "Next matches" not in list_links(last)
    assert list_numbers(load(find="needle", page=99)) == list(range(201, 251))


def test_a_log_longer_than_one_search_is_searched_in_parts(
    execution: Execution, load: Load, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log.queries, "MOST_SEARCHES", 1)
    monkeypatch.setattr(log.queries, "MOST_CHUNKS", 1)
    store_lines(execution.pk, build_lines(*("needle" if n in (5, 1500) else "hay" for n in range(2000))))
    page = load(find="needle")
    assert "Searched up to line 1000 of 2000." in page
    rest = follow(load, list_links(page)["Search the following lines"])
    assert "<strong>1 match</strong> for “needle” after line 1000." in rest
    assert list_numbers(rest) == [1501]


def test_a_text_that_is_in_no_line_is_said_to_be_missing(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines("hay"))
    page = load(find="needle")
    assert "No line contains “needle”." in page
    assert list_numbers(page) == []
    assert list_links(page) == {"Show the log": "?"}


def test_upper_and_lower_case_differ_only_on_request(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines("Needle", "needle"))
    assert list_numbers(load(find="needle")) == [1, 2]
    page = load(find="needle", case=1)
    assert list_numbers(page) == [2]
    assert "?find=needle&amp;case=1&amp;line=2#L2" in page


def test_markup_in_the_text_and_in_lines_stays_text(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines("<script>alert(1)</script>\u202e", "\x1b[31m<scr\x1b[0mipt>"))
    page = load(find="<script>")
    assert [match["text"] for match in ROW.finditer(page)] == [
        "<mark>&lt;script&gt;</mark>alert(1)&lt;/script&gt;\u27e8U+202E\u27e9",
        "<mark>&lt;script&gt;</mark>",
    ]
    assert 'value="&lt;script&gt;"' in page
    assert "<script>alert" not in page


def test_a_secret_is_not_found_because_it_is_not_stored(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines("password hunter2-hunter2"), mask=SecretMask(["hunter2-hunter2"]))
    assert "No line contains" in load(find="hunter2")
    assert list_numbers(load(find="password")) == [1]


def test_a_match_far_to_the_right_of_a_long_line_is_shown(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines("x" * 9_000 + "needle" + "y" * 5_000))
    (text,) = [match["text"] for match in ROW.finditer(load(find="needle"))]
    assert text.startswith("…" + "x" * 200 + "<mark>needle</mark>y")
    assert text.endswith("y…")
    assert len(text) < 2_100


def test_a_line_is_opened_with_its_surroundings_and_highlighted(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines(*(f"line {number}" for number in range(1, 1001))))
    page = load(line=500)
    assert list_numbers(page) == list(range(492, 692))
    assert [match["number"] for match in ROW.finditer(page) if "picked" in match["level"]] == ["500"]
    assert 'href="?line=500#L500" aria-current="true"' in page
    earlier = follow(load, list_links(page)["Earlier lines"])
    assert list_numbers(earlier) == list(range(292, 492))
    later = follow(load, list_links(page)["Later lines"])
    assert list_numbers(later)[:9] == list(range(684, 693))


def test_the_first_and_the_last_line_have_no_lines_beyond_them(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines(*(f"line {number}" for number in range(1, 301))))
    assert list_numbers(load(line=1)) == list(range(1, 201))
    assert "Earlier lines" not in list_links(load(line=1))
    assert "Later lines" not in list_links(load(line=300))


def test_a_line_after_the_end_opens_the_end_and_says_so(execution: Execution, load: Load):
    store_lines(execution.pk, build_lines("one", "two"))
    page = load(line=77)
    assert "The log has 2 lines." in page
    assert [match["number"] for match in ROW.finditer(page) if "picked" in match["level"]] == ["2"]


@pytest.mark.parametrize("line", ["0", "-1", "x", "9" * 30, "٣", "1.5", ""])
def test_an_invalid_line_number_opens_the_end(execution: Execution, load: Load, line: str):
    store_lines(execution.pk, build_lines("one", "two"))
    page = load(line=line)
    assert list_numbers(page) == [1, 2]
    assert " picked" not in page


def test_a_line_of_a_search_has_links_to_the_matches_around_it(execution: Execution, load: Load):
    texts = ("needle" if number % 100 == 0 else "hay" for number in range(1, 501))
    store_lines(execution.pk, build_lines(*texts))
    page = load(find="needle", line=200)
    assert "Match 2 of 5 for “needle”." in page
    assert list_links(page)["Previous match"] == "?find=needle&line=100#L100"
    assert list_links(page)["Next match"] == "?find=needle&line=300#L300"
    assert list_links(page)["All matches"] == "?find=needle#panel-log"
    assert "Previous match" not in list_links(load(find="needle", line=100))
    assert "Next match" not in list_links(load(find="needle", line=500))
    between = load(find="needle", line=250)
    assert "5 matches for “needle”." in between
    assert list_links(between)["Next match"] == "?find=needle&line=300#L300"


def test_an_empty_log_can_be_searched_and_opened_at_a_line(execution: Execution, load: Load):
    assert "No line contains" in load(find="needle")
    assert list_numbers(load(line=5)) == []


def test_a_longer_log_takes_no_more_queries(execution: Execution, load: Load):
    load()
    counts = []
    for _ in range(2):
        store_lines(execution.pk, build_lines(*(f"needle {number}" for number in range(1_500))))
        for query in ({"find": "needle"}, {"line": 700}, {"find": "needle", "line": 700}):
            with CaptureQueriesContext(connection) as queries:
                load(**query)
            counts.append(len(queries))
    assert counts[:3] == counts[3:]
