"""What a new step begins with can be saved as it is, and every field that needs words has them."""

import pytest

from steps.kinds.registry import get_step_kinds

OURS = (
    "CreateStack",
    "DelegateConnect",
    "DeleteStack",
    "EcsBlueGreenTrafficShift",
    "EcsChangeController",
    "EcsDeleteService",
    "EcsScale",
    "HarnessApproval",
    "Http",
    "ShellScript",
    "ShellScriptProvision",
    "TerraformCloudRun",
    "TerraformApply",
    "TerraformDestroy",
    "TerraformPlan",
    "TerragruntApply",
    "TerragruntDestroy",
    "TerragruntPlan",
    "Verify",
    "Wait",
)


@pytest.mark.parametrize("type_", OURS)
def test_a_new_step_is_one_that_can_be_planned(type_: str) -> None:
    kind = get_step_kinds()[type_]
    assert kind.starter
    assert kind.build_units(kind.starter)


@pytest.mark.parametrize("type_", OURS)
def test_the_fields_of_a_step_say_what_they_are_for(type_: str) -> None:
    fields = get_step_kinds()[type_].spec.__dataclass_fields__.values()
    documented = [
        field.name for field in fields if field.metadata.get("help") or field.metadata.get("choices")
    ]
    assert len(documented) >= len(fields) - 3
