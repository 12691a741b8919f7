"""Where bytes come from: files, objects, standard input."""
