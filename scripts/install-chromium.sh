#!/bin/sh
# Installs Chromium and its driver for the test that clicks in the UI. Without them the test is skipped; in CI it fails.
set -u

if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "Installing chromium and chromium-driver (apt-get) …"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium chromium-driver; } \
        >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        exit 0
    fi
    tail -n 5 "$log"
    rm -f "$log"
fi
echo "There is no chromium with chromedriver, and they could not be installed. The test in the browser cannot run." >&2
echo "Install them (on Debian, as root: apt-get install chromium chromium-driver)." >&2
exit 0
