"""The Beam graphs: whole files, records inside files, and what both end in."""
