"""Learning-rate schedules, one a file."""
