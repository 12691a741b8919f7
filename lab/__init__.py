"""Published experiments that ddbload grew from, each run here beside ddbload."""
