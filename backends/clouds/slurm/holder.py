"""The batch script of an allocation that waits for a guard and runs it inside.

Slurm sends a preemption's SIGCONT and SIGTERM at once to the steps of a job, but to its batch shell only together with the
kill (seen with 22.05 and 24.11). So the guard runs in a step, and everything that it starts or brings back is in that step too:
accounted there, ended with it.
"""

from __future__ import annotations

WORD = "reprieve"  # the Comment of an allocation that is ready begins so; its host's public key follows

# Constant text; docs/providers-slurm.md shows the same. The root is that of `backends.nodes.inside`.
SCRIPT = """#!/bin/sh
# Holds this allocation for Reprieve: its guard runs in a step here once `reprieve fleet install` has put it there.
trap '' TERM
umask 077
root=/tmp/reprieve-slurm-$SLURM_JOB_ID
mkdir -p "$root" && [ -O "$root" ] || exit 1
exec srun --overlap -N1 -n1 -c "${SLURM_CPUS_ON_NODE:-1}" --mem=0 --kill-on-bad-exit=0 /bin/sh -c '
  root=$0
  key=$(cut -d" " -f1,2 /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null)
  scontrol update JobId="$SLURM_JOB_ID" Comment="reprieve $key"
  while :; do
    until [ -e "$root/state/guard.json" ] && [ ! -e "$root/state/ended" ]; do sleep 1; done
    "$root/bin/reprieve-node" serve
    sleep 5
  done' "$root"
"""
