"""Made-up requests for a Slipway that runs, by three roles, with every check and phase of schemathesis."""
