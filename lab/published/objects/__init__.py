"""Ways to read many small objects of S3, as published in 2019."""
