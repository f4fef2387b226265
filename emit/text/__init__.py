"""What both kernel languages and the references share: expressions, formulas, numbers, sizes."""
