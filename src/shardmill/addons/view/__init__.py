"""Look into TFRecord files of anyone: inspect, verify and read them without a manifest, and the page of `view`."""
