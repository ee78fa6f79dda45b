"""Which value of a variable counts, and why."""

from catalog.overrides.variables import VariableLevel, build_variable_expressions, resolve_variables

PIPELINE = VariableLevel("pipeline", "Release", {"level": "warn", "color": "red"})
SERVICE = VariableLevel("service", "My app", {"level": "info", "host": "", "size": 3})
ENVIRONMENT = VariableLevel("environment", "Production", {"level": "debug", "host": "db.internal"})


def test_the_most_specific_level_wins_even_with_a_false_value():
    off = VariableLevel("environment", "Production", {"level": False})
    found = {one.name: one for one in resolve_variables([PIPELINE, SERVICE, off])}
    assert found["level"].value is False
    assert found["level"].winner == off
    assert found["level"].values == ("warn", "info", False)
    assert found["color"].winner == PIPELINE
    assert found["host"].values == (None, "", None)


def test_a_required_variable_is_missing_until_some_level_gives_it_a_value():
    assert [one.name for one in resolve_variables([SERVICE], ["host", "size"]) if one.is_missing] == ["host"]
    assert not any(one.is_missing for one in resolve_variables([SERVICE, ENVIRONMENT], ["host", "size"]))
    assert resolve_variables([], ["host"])[0].is_missing


def test_expressions_find_the_winner_under_the_name_that_says_who_may_win():
    known = build_variable_expressions(PIPELINE.values, SERVICE.values, ENVIRONMENT.values, {"size": 4})
    assert known["serviceVariables"] == {"level": "debug", "host": "db.internal", "size": 4}
    assert known["variables"] == {"level": "debug", "host": "db.internal", "size": 4, "color": "red"}
