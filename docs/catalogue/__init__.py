"""The messages that the product can show a user, and the entries that explain them."""
