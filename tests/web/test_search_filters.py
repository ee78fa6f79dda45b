"""How a text is searched for inside a column, on either database."""

import pytest

from rbac.models import User
from web.search_filters import contains_text

NAMES = ("Registry/App_1%", "registry/appX1", r"C:\Große Straße", "")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("REGISTRY", {0, 1}),
        ("gistry/app", {0, 1}),
        # What LIKE takes for a pattern is searched as it is written.
        ("app_1", {0}),
        ("1%", {0}),
        ("c:\\", {2}),
        # Letters beyond ASCII, alone and among others.
        ("große straße", {2}),
        ("ß", {2}),
        ("'", set()),
        ("nowhere", set()),
        ("", {0, 1, 2, 3}),
    ],
)
def test_a_text_is_found_in_whatever_case_and_as_it_is_written(text: str, numbers: set[int]) -> None:
    for number, name in enumerate(NAMES):
        User.objects.create(username=f"person{number}", first_name=name)
    people = User.objects.filter(username__startswith="person").filter(contains_text("first_name", text))
    assert set(people.values_list("username", flat=True)) == {f"person{number}" for number in numbers}
