"""Records that are left out: written where they are found, put in order where the data set is published."""
