"""Keys, exact cuts and balance: which example lies in which shard."""
