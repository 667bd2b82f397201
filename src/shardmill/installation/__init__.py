"""What is installed: TensorFlow and other extras, which few need, and the packages that are this project's own."""
