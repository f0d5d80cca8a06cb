"""Tables of chapter 4 of the thesis Lau2018."""
