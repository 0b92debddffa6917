#!/usr/bin/env bash
# The page of zun-wsproxy, bundled with npm. `build` writes what is committed in zun/wsproxy/static; `check` builds it anew
# from the sources, beside types and tests, and fails where a byte differs.
source "$(dirname "$0")/lib.sh"

static=$REPO/zun/wsproxy/static
[[ ${1:-} == build || ${1:-} == check ]] || die "scripts/console.sh build|check"
command -v npm >/dev/null || die "npm is needed to build the page; Debian has it: apt-get install npm"
cd "$REPO/console"
if [[ $(cat node_modules/.made 2>/dev/null) != "$(sha256sum <package.json)" ]]; then
    rm -rf node_modules
    npm install --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error >/dev/null \
        || die "The page's packages could not be installed."
    sha256sum <package.json >node_modules/.made
fi
if [[ $1 == build ]]; then
    rm -rf "$static"
    node build.mjs "$static"
    exit
fi
npm run --silent types
npm run --silent test
built=$(mktemp -d /tmp/zun-console.XXXXXX)
trap 'rm -rf "$built"' EXIT
node build.mjs "$built"
diff -rq "$built" "$static" || die "zun/wsproxy/static is not what console/ gives: run scripts/console.sh build and commit it."
