"""A trained run behind HTTP: a page to type a text into, and a JSON API (``tfzoo serve``)."""
