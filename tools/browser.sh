#!/bin/sh
# Provides the browser that the dashboard is tested in, where this machine lets us; never fails, but says what is missing.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done

if [ "$(id -u)" = 0 ]; then as_root=""; else as_root="sudo -n"; fi
if command -v apt-get >/dev/null 2>&1 && $as_root true >/dev/null 2>&1; then
    echo "Installing chromium, which the dashboard is tested in ..."
    install="$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium"
    # Lists may be missing or old: they are fetched only if it does not work without.
    $install >/dev/null 2>&1 || { $as_root apt-get update -qq >/dev/null 2>&1 && $install >/dev/null 2>&1; }
fi

command -v chromium >/dev/null 2>&1 || printf '\033[1;31m%s\033[0m\n' \
    "NO BROWSER: chromium is missing and could not be installed here; the dashboard will not be tested." >&2
exit 0
