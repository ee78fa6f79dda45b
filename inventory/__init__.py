"""What runs where: instances, drift and adoption, dashboards."""
