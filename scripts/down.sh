#!/usr/bin/env bash
# make down: stops the product. Containers and the engine go on running; make up finds them again.
source "$(dirname "$0")/lib.sh"

if ! pid=$(running_pid zun); then
    rm -f "$STATE/zun.pid" "$STATE/zun.started"
    say "Zun does not run from $STATE; nothing to stop."
    exit 0
fi
stop_pid zun 20
say "Stopped (it was process $pid). Containers go on running; make up finds them again."
