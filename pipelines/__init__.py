"""The jobs of shardmill: configuration, graphs and the command line."""
