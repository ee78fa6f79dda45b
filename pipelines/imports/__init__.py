"""Import of services and pipelines from the files of ecspresso and PipeCD."""
