#!/bin/sh
# Debian builds busybox without wget's -T, and that option crashes it: the limit is kept here, for the whole transfer.
limit= left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  while case $word in -[cqS]?*) ;; *) false ;; esac; do
    set -- "$@" "${word%"${word#??}"}"
    word=-${word#??}
  done
  case $word in
    -T | --timeout)
      limit=$1
      shift
      left=$((left - 1))
      ;;
    -T*) limit=${word#-T} ;;
    --timeout=*) limit=${word#--timeout=} ;;
    -[OoPUY] | --header | --post-data | --post-file)
      set -- "$@" "$word" "$1"
      shift
      left=$((left - 1))
      ;;
    *) set -- "$@" "$word" ;;
  esac
done
[ -n "$limit" ] || exec busybox-applets wget "$@"
timeout "$limit" busybox-applets wget "$@"
code=$?
[ "$code" -ne 143 ] || { echo "wget: download timed out" >&2; code=1; }
exit "$code"
