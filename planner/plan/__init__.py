"""What `reprieve plan` is asked and how each part of its answer is found."""
