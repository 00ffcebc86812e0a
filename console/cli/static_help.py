"""Texts printed before anything is imported. Generated: `python -m tests.support.static_help`."""

VERSION = "0.1.0"

TOP = """\
reprieve brings long jobs back after a spot reclaim, and says what it costs

Usage: reprieve [OPTIONS] COMMAND ...
       reprieve    (on a terminal: the console)

Start here
  demo         a practice fleet on this machine: a job loses its node and comes back
  practice     a practice fleet to play with, one step at a time
  doctor       checks this machine, the fleet and the store

Does spot pay?
  plan         what reclaims cost a job, and every break-even
  pools        pools with discount, interruption figure and break-even
  report       what reclaims did cost: lost work, restore, wait

Keep jobs alive
  fleet        nodes: list, add, install the guard, cordon
  jobs         jobs: protect, save, restore, move, rehearse, stop
  checkpoints  what a job can come back to: list, verify, prune
  store        where checkpoints live: make ready, check
  watch        the controller: detects losses and restores by policy
  batch        restore many jobs from a file

Look back
  operations   what is under way, step by step
  events       what happened, in order
  replay       a recorded console session, at any moment

This program
  config       paths, settings and their origin, schema
  completion   completion script for bash, zsh or fish
  version      the version
  help         help on a command or a topic

Options of every command
  -o, --output WORD               output format: table, wide, json, ndjson, csv, yaml, name
      --context TEXT              named settings to use; practice is built in
      --config PATH               configuration file instead of the user's
      --color auto|always|never   colour on a terminal
  -q, --quiet                     no narration on stderr
  -v, --verbose                   more narration; -vv shows the traceback of a fault
      --no-input                  never ask: what would ask exits 9
      --read-only                 refuse everything that changes something
      --dry-run                   show what would be done and change nothing
  -y, --yes                       agree without being asked
      --confirm TEXT              with --yes, what cannot be undone: the name, or a count

More: reprieve COMMAND --help, reprieve help environment, reprieve help exit-codes
"""

SHORT = """\
reprieve brings long jobs back after a spot reclaim, and says what it costs
Usage: reprieve COMMAND ...; the console needs a terminal
Start with: reprieve demo, reprieve plan --help, reprieve --help
"""
