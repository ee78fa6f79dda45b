"""Changes to the YAML of a pipeline that leave everything else in it as it was written."""
