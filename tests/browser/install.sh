#!/bin/sh
# Install what `make test-browser` drives: Chromium from the distribution where it is missing, and playwright at the
# version of the checks into the virtual environment $1. Playwright's own browsers are never downloaded.
set -eu
venv=$1
constraints=$(dirname "$0")/../../constraints.txt
export DEBIAN_FRONTEND=noninteractive

root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo --preserve-env=DEBIAN_FRONTEND "$@"; fi
}

# The fonts are there because without any no text has a width, and none could overlap.
install() {
    root apt-get install --quiet --yes --no-install-recommends chromium fonts-liberation
}

if ! command -v chromium >/dev/null; then
    command -v apt-get >/dev/null || { echo "install Chromium, as \`chromium\` on the PATH" >&2; exit 1; }
    # It fails where the package lists are missing, or older than the archive.
    install || { root apt-get update --quiet && install; }
fi
"$venv/bin/python" -m pip install --quiet --constraint "$constraints" playwright
