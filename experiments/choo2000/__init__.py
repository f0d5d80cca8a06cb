"""Tables of the thesis Choo2000."""
