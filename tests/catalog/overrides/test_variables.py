"""Which value of a variable counts, and why."""

from catalog.overrides.variables import VariableLevel, build_variable_expressions, resolve_variables

PIPELINE = VariableLevel("pipeline", "Release", {"level": "warn", "color": "red"})
SERVICE = VariableLevel("service", "My app", {"level": "info", "host": "", "size": 3})
ENVIRONMENT = VariableLevel("environment", "Production", {"level": "debug", "host": "db.internal"})


def test_the_most_specific_level_wins_even_with_a_false_value():
    false_level = VariableLevel("environment", "Production", {"level": False})
    variables = {variable.name: variable for variable in resolve_variables([PIPELINE, SERVICE, false_level])}
    assert variables["level"].value is False
    assert variables["level"].winner == false_level
    assert variables["level"].values == ("warn", "info", False)
    assert variables["color"].winner == PIPELINE
    assert variables["host"].values == (None, "", None)


def test_a_required_variable_is_missing_until_some_level_gives_it_a_value():
    assert [
        variable.name for variable in resolve_variables([SERVICE], ["host", "size"]) if variable.is_missing
    ] == ["host"]
    assert not any(
        variable.is_missing for variable in resolve_variables([SERVICE, ENVIRONMENT], ["host", "size"])
    )
    assert resolve_variables([], ["host"])[0].is_missing


def test_expressions_find_the_winner_under_the_name_that_says_who_may_win():
    expressions = build_variable_expressions(PIPELINE.values, SERVICE.values, ENVIRONMENT.values, {"size": 4})
    assert expressions["serviceVariables"] == {"level": "debug", "host": "db.internal", "size": 4}
    assert expressions["variables"] == {"level": "debug", "host": "db.internal", "size": 4, "color": "red"}
