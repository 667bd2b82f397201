"""Files on local disks, in zip archives and in object stores: S3, Google Cloud Storage and Azure."""
