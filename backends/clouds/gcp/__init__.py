"""Google Cloud: who is there, is it gone and why, by plain HTTP."""
