"""Actions on runs of Terraform Cloud."""
