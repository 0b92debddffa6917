#!/usr/bin/env bash
# make check: style, types, layers, and that the generated reference and the built page are up to date. Runs all of them,
# fails if one does. Without npm the page is compared with its sources by their checksums only, in tests/unit.
source "$(dirname "$0")/lib.sh"

exclusive
ensure_venv check
flock -u 9
bin=$VENV/bin
failed=()
step() { # COMMAND...
    say "== $*"
    "$bin/$1" "${@:2}" || failed+=("$1 ${*:2}")
}
step ruff check .
step ruff format --check .
step mypy --strict -p zun
step lint-imports
step python scripts/gen_reference.py --check
if command -v npm >/dev/null; then
    say "== scripts/console.sh check"
    scripts/console.sh check || failed+=("scripts/console.sh check")
else
    say "== scripts/console.sh check is left out: there is no npm"
fi
((${#failed[@]} == 0)) || die "Failed: $(printf '%s; ' "${failed[@]}")"
say "All clean."
