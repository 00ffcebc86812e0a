"""The engines `runc` and `crun`: containers, saved and brought back by their own runtime, which calls CRIU."""
