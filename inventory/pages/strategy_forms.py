"""Form of a strategy's settings, filled in with what was read from the running service."""

from collections.abc import Iterable
from typing import Any, Final

from django import forms

from inventory.operations.strategy_changes import ReadStage, StrategyChoice
from inventory.strategy_changes.readings import RuleChoice, ServiceReading
from inventory.strategy_changes.strategies import (
    CLASSIC,
    MOST_MINUTES,
    NATIVE_STRATEGIES,
    PERCENT_FIELDS,
    ROLLING,
)
from web.forms.page_forms import PageForm

_DEFAULT_PERCENT: Final = 10
_LEAST_PERCENT: Final = {"LINEAR": 3, "CANARY": 0.1}


class StrategySettingsForm(PageForm):
    """Settings of the strategy that was chosen; a strategy without any has no fields."""

    pairs = (
        ("production", "test"),
        ("alternate_group", "role"),
        ("percent", "step_minutes"),
    )

    def __init__(self, *args: Any, read: ReadStage, strategy: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.read, self.strategy = read, strategy
        if strategy != ROLLING:
            self._add_rules(read)
        if strategy in NATIVE_STRATEGIES:
            self._add_native_fields(read.reading)
        for field in self.fields.values():
            css = "select" if isinstance(field.widget, forms.Select) else "input"
            field.widget.attrs |= {"class": css, "autocomplete": "off"}

    def build_choice(self) -> StrategyChoice:
        """Return the choice; the form must be valid."""
        return StrategyChoice(
            strategy=self.strategy, stage=self.read.stage.target.spec.identifier, **self.cleaned_data
        )

    def _add_rules(self, read: ReadStage) -> None:
        reading, is_classic = read.reading, self.strategy == CLASSIC
        choices = list(_list_rule_choices(reading.rules))
        production, test = reading.find_production(), reading.find_test()
        self.fields["production"] = forms.ChoiceField(
            label="Production rule",
            choices=[("", "Choose a rule"), *choices],
            initial=production.key if production else "",
            help_text="The rule that sends users to this service.",
        )
        self.fields["test"] = forms.ChoiceField(
            label="Stage rule" if is_classic else "Test rule",
            choices=[("", "Choose a rule" if is_classic else "None"), *choices],
            initial=test.key if test else "",
            required=is_classic,
            help_text="The rule that leads to the new version before users do.",
        )

    def _add_native_fields(self, reading: ServiceReading) -> None:
        advanced = reading.get_advanced()
        groups = [group for group in reading.groups if group.arn not in reading.live_groups]
        self.fields["alternate_group"] = forms.ChoiceField(
            label="Target group for the new version",
            choices=[("", "Choose a target group"), *((group.arn, group.title) for group in groups)],
            initial=reading.find_alternate(),
            help_text="Of the same network and type as the present one; it may receive no other traffic.",
        )
        self.fields["role"] = forms.CharField(
            label="Role of ECS",
            max_length=600,
            initial=advanced.get("roleArn", ""),
            help_text="ARN of the role with which ECS changes the rules, such as ecsInfrastructureRole.",
        )
        if self.strategy in PERCENT_FIELDS:
            self._add_steps(reading)
        configuration = reading.service.get("deploymentConfiguration") or {}
        bake_minutes = configuration.get("bakeTimeInMinutes", 0)
        self.fields["bake_minutes"] = forms.IntegerField(
            label="Bake time in minutes",
            # A rolling service has 0 and no use for it.
            initial=bake_minutes if reading.strategy in NATIVE_STRATEGIES else bake_minutes or 5,
            help_text="ECS keeps the old tasks this long after the last shift.",
            min_value=0,
            max_value=MOST_MINUTES,
        )

    def _add_steps(self, reading: ServiceReading) -> None:
        name, percent, minutes = PERCENT_FIELDS[self.strategy]
        present = (reading.service.get("deploymentConfiguration") or {}).get(name) or {}
        is_linear = self.strategy == "LINEAR"
        self.fields["percent"] = forms.FloatField(
            label="Traffic of each step in percent" if is_linear else "Canary traffic in percent",
            min_value=_LEAST_PERCENT[self.strategy],
            max_value=100,
            initial=f"{present.get(percent, _DEFAULT_PERCENT):g}",
        )
        self.fields["step_minutes"] = forms.IntegerField(
            label="Minutes between the steps" if is_linear else "Minutes before all traffic",
            initial=present.get(minutes, 5),
            min_value=0,
            max_value=MOST_MINUTES,
        )


def _list_rule_choices(rules: Iterable[RuleChoice]) -> Iterable[tuple[str, str]]:
    return ((rule.key, f"{rule.reference.balancer}: {rule.title}") for rule in rules)
