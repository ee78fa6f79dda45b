"""The only code that knows boto3: verbs in our words over a caller, values in and out."""
