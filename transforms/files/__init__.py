"""The route of whole files, a file a record; a new kind of file is a new folder here."""
