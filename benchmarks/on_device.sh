#!/usr/bin/env bash
# On a lent accelerator: run `temperflow reproduce ...` until every row has its draws, and pack what there is.
#     benchmarks/on_device.sh ARCHIVE.tar.gz SECONDS EXPERIMENT [WORDS ...]
# The assignments behind W2 need no accelerator: unpack the archive anywhere and give the same command again.
set -u
archive=$1 seconds=$2; shift 2
work=$(mktemp -d)
place=$work/$(basename "$archive" .tar.gz)
python3 -c 'from temperflow.app.cli import main; raise SystemExit(main())' \
  reproduce "$@" --seconds "$seconds" --out "$place" >"$work/said" 2>&1 &
worker=$!
# "measuring" is said when the accelerator has nothing left to do.
while kill -0 $worker 2>/dev/null && ! grep -qs measuring "$work/said"; do sleep 0.5; done
kill -TERM $worker 2>/dev/null
wait $worker
cat "$work/said"
tar -C "$work" --exclude=checkpoints -czf "$archive" "$(basename "$place")"
ls -l "$archive"
