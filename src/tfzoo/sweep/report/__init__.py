"""The report of a sweep: its results, the answer, sections and pictures, and the files."""
