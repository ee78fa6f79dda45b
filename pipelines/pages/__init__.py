"""Pages of pipelines, the visual editor, input sets and expressions."""
