"""Stories: whole deployments through the API, by strategy, step family and option."""
