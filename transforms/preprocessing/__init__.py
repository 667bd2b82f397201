"""Preprocessing that training and serving share: what is declared, what is found of the data, and the graph."""
