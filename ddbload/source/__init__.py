"""Where bytes come from: local files, standard input, S3 objects. Each pinned to one version."""
