"""One file per group of commands; each has `register(app)`."""
