"""The actions of Terraform and Terragrunt: plan, apply with its undo, destroy."""

from deployments.actions.terraform.apply import ApplyTerraform
from deployments.actions.terraform.destroy import DestroyTerraform
from deployments.actions.terraform.plan import PlanTerraform

__all__ = ["ApplyTerraform", "DestroyTerraform", "PlanTerraform"]
