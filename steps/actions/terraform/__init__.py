"""The actions of Terraform and Terragrunt: plan, apply with its undo, destroy."""

from steps.actions.terraform.apply import ApplyTerraform
from steps.actions.terraform.destroy import DestroyTerraform
from steps.actions.terraform.plan import PlanTerraform

__all__ = [
    "ApplyTerraform",
    "DestroyTerraform",
    "PlanTerraform",
]
