"""The actions that let Terraform Cloud run Terraform; importing this package knows all of them."""

from steps.actions.terraform_cloud import confirm, create, end, outputs, override, pick

__all__ = ["confirm", "create", "end", "outputs", "override", "pick"]
