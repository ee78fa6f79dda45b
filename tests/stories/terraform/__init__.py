"""Terraform as people run it: plan, apply, roll back and destroy through a delegate."""
