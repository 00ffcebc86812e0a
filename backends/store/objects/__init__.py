"""`s3://`, `gs://` and `az://`: object stores of clouds and of S3-compatible servers, through obstore."""
