"""Conditions of policy rules: results, errors, and limits."""

import sys
import time

import pytest

from policies.conditions import (
    CelDocument,
    EvaluationFailed,
    InvalidCondition,
    UndeclaredName,
    compile_condition,
    evaluate_condition,
)
from policies.evaluation import find_condition_problem
from policies.models import PolicyRule
from policies.subjects import EXAMPLES

RUN = CelDocument(EXAMPLES[PolicyRule.Subject.RUN])


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ("artifact.tag != 'latest'", True),
        ("artifact.tag == 'latest'", False),
        ("stages.all(s, s.environment.kind != 'Production' || s.approvals.exists(a, a.minimum >= 2))", True),
        ("stages.exists(s, s.approvals.size() == 0)", False),
        ("artifact.tag.matches('^[0-9]+[.][0-9]+')", True),
        ("artifact.image.startsWith('other.example.com/')", False),
        ("has(inputs.replicas) && inputs.replicas <= 10", True),
        ("!has(inputs.missing)", True),
    ],
)
def test_a_condition_is_evaluated_on_the_document(condition: str, is_met: bool) -> None:
    assert evaluate_condition(condition, RUN) is is_met


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("artifact.missing == 'a'", "there is no field missing"),
        ("artifact.tag > 3", "different types"),
        ("size(attempt) > 0", "different types"),
        ("attempt / 0 > 1", "divide by zero"),
        ("artifact.tag.matches('(')", "pattern"),
        ("attempt.all(a, a > 1)", "iterable"),
        ("!" * 900 + "true", "nested too deeply"),
        ("artifact.tag", "neither true nor false"),
        ("timestamp('2020-01-01T00:00:00Z').getHours('America') == 1", "unknown time zone"),
    ],
)
def test_a_condition_without_a_result_fails_with_the_reason(condition: str, message: str) -> None:
    with pytest.raises(EvaluationFailed, match=message):
        evaluate_condition(condition, RUN)


def test_an_undeclared_name_is_reported_without_the_values_of_the_document() -> None:
    with pytest.raises(UndeclaredName) as failure:
        evaluate_condition("artefact.tag == 'a'", RUN)
    assert str(failure.value) == "undeclared reference to 'artefact'"


@pytest.mark.parametrize(
    ("condition", "line", "column"), [("artifact.tag !=\n= 'a'", 2, 1), ("a b", 1, 3), ("", 1, 1)]
)
def test_a_condition_that_cannot_be_parsed_is_refused_with_its_place(
    condition: str, line: int, column: int
) -> None:
    with pytest.raises(InvalidCondition) as refusal:
        compile_condition(condition)
    assert (refusal.value.line, refusal.value.column) == (line, column)


@pytest.mark.parametrize("condition", ["stages.all('s', true)", "stages.exists(1, true)"])
def test_a_macro_without_a_variable_is_refused(condition: str) -> None:
    problem = find_condition_problem(f"attempt > 0 &&\n{condition}", PolicyRule.Subject.RUN)
    assert problem is not None
    assert (problem["path"], problem["line"]) == ("condition", 2)
    assert "begins with the name of a variable" in problem["message"]


@pytest.mark.parametrize("condition", ["true || " * 300 + "true", "(" * 13 + "true" + ")" * 13])
def test_a_condition_that_is_too_long_or_too_deep_is_not_parsed(condition: str) -> None:
    with pytest.raises(InvalidCondition, match="A condition can have"):
        compile_condition(condition)


@pytest.mark.parametrize(
    "condition", ["(" * 12 + "true" + ")" * 12, "[1].all(a, " * 12 + "a == 1" + ")" * 12]
)
def test_the_deepest_condition_fits_the_recursion_limit_of_the_process(condition: str) -> None:
    assert sys.getrecursionlimit() == 1000
    assert evaluate_condition(condition, CelDocument({}))
    assert sys.getrecursionlimit() == 1000


def test_nested_macros_end_at_the_deadline() -> None:
    document = CelDocument({"rows": list(range(200))})
    condition = "rows.all(a, rows.all(b, rows.all(c, a + b + c >= 0)))"
    start = time.thread_time()
    with pytest.raises(EvaluationFailed, match="took longer than 200 milliseconds"):
        evaluate_condition(condition, document)
    assert time.thread_time() - start < 1


def test_the_values_that_a_condition_names_are_listed() -> None:
    condition = (
        "artifact.tag != 'latest' && stages.all(s, s.environment.kind == 'Production') && has(inputs.a)"
    )
    assert compile_condition(condition).paths == (
        "artifact.tag",
        "stages",
        "s",
        "s.environment.kind",
        "inputs.a",
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("artefact.tag == 'a'", "undeclared reference to 'artefact'"),
        ("artifact.tag", "neither true nor false"),
        ("artifact.tag ==", "cannot be parsed at line 1"),
        ("artifact.tga != 'latest'", "A run has no field tga."),
        ("stages.all(s, s.env.kind != 'Production')", "A run has no field env."),
        (" ", "Enter a condition"),
    ],
)
def test_a_rule_is_not_saved_with_a_condition_that_nothing_could_meet(condition: str, message: str) -> None:
    problem = find_condition_problem(condition, PolicyRule.Subject.RUN)
    assert problem is not None
    assert message in problem["message"]


def test_a_rule_may_name_an_input_that_the_example_lacks() -> None:
    assert find_condition_problem("inputs.region == 'eu'", PolicyRule.Subject.RUN) is None
