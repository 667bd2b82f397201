"""Preprocessing that training and serving share: --transform, --module_file and --materialize."""
