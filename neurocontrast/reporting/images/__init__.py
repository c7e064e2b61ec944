"""What only reports of natural images need: the pictures themselves, their classes, and what is said about them."""
