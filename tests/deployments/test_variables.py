"""Which value of a variable counts, and why."""

from catalog.effective.variables import Level, expressions, resolved

PIPELINE = Level("pipeline", "Release", {"level": "warn", "color": "red"})
SERVICE = Level("service", "My app", {"level": "info", "host": "", "size": 3})
ENVIRONMENT = Level("environment", "Production", {"level": "debug", "host": "db.internal"})


def test_the_most_specific_level_wins_even_with_a_false_value():
    off = Level("environment", "Production", {"level": False})
    found = {one.name: one for one in resolved([PIPELINE, SERVICE, off])}
    assert found["level"].value is False
    assert found["level"].winner == off
    assert found["level"].values == ("warn", "info", False)
    assert found["color"].winner == PIPELINE
    assert found["host"].values == (None, "", None)


def test_a_required_variable_is_missing_until_some_level_gives_it_a_value():
    assert [one.name for one in resolved([SERVICE], ["host", "size"]) if one.is_missing] == ["host"]
    assert not any(one.is_missing for one in resolved([SERVICE, ENVIRONMENT], ["host", "size"]))
    assert resolved([], ["host"])[0].is_missing


def test_expressions_find_the_winner_under_the_name_that_says_who_may_win():
    known = expressions(PIPELINE.values, SERVICE.values, ENVIRONMENT.values, {"size": 4})
    assert known["serviceVariables"] == {"level": "debug", "host": "db.internal", "size": 4}
    assert known["variables"] == {"level": "debug", "host": "db.internal", "size": 4, "color": "red"}
