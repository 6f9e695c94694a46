#!/bin/sh
# busybox by its own name: its wget is the one in /bin, which takes -T without crashing.
if [ "$1" = wget ]; then
  shift
  exec /bin/wget "$@"
fi
exec /bin/busybox-applets "$@"
