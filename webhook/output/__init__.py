"""What commands print: results as values, and pure functions that render them."""
