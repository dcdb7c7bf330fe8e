"""From scores to verdicts: statistics alone, which know nothing of folders."""
