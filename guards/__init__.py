"""What every door asks of what comes in: limits, texts, JSON, YAML. It knows no framework."""
