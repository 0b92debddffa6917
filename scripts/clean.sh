#!/usr/bin/env bash
# make clean: removes the virtual environments and all state. Refused while the product runs.
source "$(dirname "$0")/lib.sh"

! pid=$(running_pid zun) || die "Zun runs from $STATE (process $pid); make down first."
! grep -q " $STATE/" /proc/self/mounts || die "Volumes are mounted below $STATE; delete their containers first."
if [[ -d $STATE ]]; then
    [[ $STATE != / && $STATE != "$HOME" && $STATE != "$REPO" && ( -e $STATE/zun.conf || $STATE == "$REPO/var" ) ]] \
        || die "$STATE does not look like a state directory of Zun; left alone."
    if engine=$(running_pid dockerd); then
        say "The Docker engine that make up started (process $engine) goes on running."
    fi
    rm -rf --one-file-system "$STATE"
    say "Removed $STATE with its database, volumes and tokens."
    say "What its containers left in the engine is not touched: docker ps -a --filter label=org.openstack.zun.owner; docker network prune"
fi
for folder in "$VENV" "$CLIENTS" "$TEMPEST" "$REPO/zun_ng.egg-info" "$REPO/console/node_modules"; do
    if [[ -d $folder ]]; then
        rm -rf "$folder"
        say "Removed $folder."
    fi
done
