"""What a user chooses and transforms honour, each choice declared once: splits, labels, shards, output."""
