"""Entry of the command `reprieve`: the texts most often asked for come before anything is imported."""

import sys


def main() -> int:
    """Run the command line in `sys.argv` and return its exit code."""
    argv = sys.argv[1:]
    if argv in (["--help"], ["-h"], ["help"]):
        from console.cli.static_help import TOP

        return _print(TOP)
    if argv in (["version"], ["--version"]):
        from console.cli.static_help import VERSION

        return _print(f"reprieve {VERSION}\n")
    if not argv and not (sys.stdin.isatty() and sys.stdout.isatty()):
        from console.cli.static_help import SHORT

        sys.stderr.write(SHORT)
        return 2
    import gc

    gc.disable()  # while modules load there is no garbage to find; `run` turns it on for the command itself
    from console.cli.run import run

    try:
        return run(argv)
    finally:
        gc.freeze()  # what is left dies with the process: a last collection would cost 4 ms


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
