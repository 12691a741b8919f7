"""What the product's answers are compared with: slow, plain, and sharing no code with it."""
