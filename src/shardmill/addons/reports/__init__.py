"""Reports on data sets: `inspect` with its contact sheet, `report` and the page of a build, and `diff`."""
