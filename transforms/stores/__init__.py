"""Bytes by exact names, on local disks and object stores."""
