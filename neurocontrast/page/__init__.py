"""What a page is built of: blocks, tables, figures and words. It knows nothing of what is shown with them."""
