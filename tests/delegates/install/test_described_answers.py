"""The stored answers of the wizard in the words of its form."""

from delegates.forms.installation import NewDelegateForm, describe_answers
from delegates.install.wizard import WizardAnswers


def test_answers_have_the_labels_of_the_form() -> None:
    answers = WizardAnswers(
        target="EC2", subnets=("subnet-a", "subnet-b"), secret_kind="CREATE", assign_public_ip=False
    )
    described = dict(describe_answers(answers.to_json()))
    assert described["Launch type"] == ["ECS on EC2"]
    assert described["Subnets"] == ["subnet-a", "subnet-b"]
    assert described["Token storage"] == ["New Secrets Manager secret"]
    assert described["Assign public IP"] == ["No"]
    assert not {"Proxy", "Proxy port"} & set(described), "empty answers are left out"
    labels = {str(field.label) for field in NewDelegateForm.base_fields.values()}
    assert set(described) <= labels


def test_unknown_and_missing_answers_are_left_out() -> None:
    assert describe_answers({"unknown": "x", "region": None, "target": "MOON"}) == [("Launch type", ["MOON"])]


def test_answers_that_only_ecs_uses_are_not_shown_for_another_target() -> None:
    answers = WizardAnswers(target="SHELL_SCRIPT", subnets=("subnet-a",), proxy_host="proxy.example.com")
    described = dict(describe_answers(answers.to_json()))
    assert set(described) == {"Launch type", "Flavour", "Proxy", "Proxy port", "Proxy scheme"}
