"""From a YAML to the runs of a sweep: what is varied, with which seeds, by which metric."""
