"""One training, and the evaluation of what it trained."""
