"""Ways to read many small S3 objects, published in 2019."""
