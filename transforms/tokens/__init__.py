"""Text as the ids of a tokenizer's tokens, one list an example or packed into blocks."""
