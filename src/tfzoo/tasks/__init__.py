"""Tasks: models with data, loss and scores, one file a task."""
