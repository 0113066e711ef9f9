#!/bin/bash
# Times haul against scp and rsync over an ssh server on loopback, in turn, onto tmpfs.
#
#   bench/ssh.sh [-n RUNS] [-o DIR] WORKLOAD...
#   WORKLOAD: large (one file of 2 GiB), small (2,000 files of 6.5 kB), unchanged (sync of 37,760 files that are the same);
#             each is put and got
#
# Needs root, openssh-server and rsync; builds what it measures (common.sh). Writes one CSV line a run to
# DIR/ssh-<workload>-<way>.csv (tool,run,seconds,user,sys,peak_kib,checked) and prints medians and ratios to the first tool.
# User and system time are those of this side; the server's side shares the processors.
set -euo pipefail
. "$(dirname "$0")/common.sh"
runs=5
out=bench/runs/$(date -u +%Y-%m-%d)
while getopts n:o: flag; do
    case $flag in
        n) runs=$OPTARG ;;
        o) out=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
work=$(mktemp -d /var/tmp/haul-bench.XXXXXX)
mkdir -p "$out" "$work/data" /run/sshd
export HAUL_STATE_DIR=$work/state
cleanup() {
    [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
    mountpoint -q "$work/data" && umount "$work/data" || true
    rm -rf "$work"
}
trap cleanup EXIT
mount -t tmpfs -o size=8G,nr_inodes=400k none "$work/data"

port=$((20000 + RANDOM % 20000))
ssh-keygen -q -t ed25519 -N "" -f "$work/host"
ssh-keygen -q -t ed25519 -N "" -f "$work/user"
cp "$work/user.pub" "$work/keys"
cat >"$work/sshd" <<EOF
Port $port
ListenAddress 127.0.0.1
HostKey $work/host
AuthorizedKeysFile $work/keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
Subsystem sftp /usr/lib/openssh/sftp-server
EOF
/usr/sbin/sshd -D -e -f "$work/sshd" 2>"$work/log" &
server=$!
echo "[127.0.0.1]:$port $(cat "$work/host.pub")" >"$work/known"
cat >"$work/ssh" <<EOF
Host far
  HostName 127.0.0.1
  Port $port
  User root
  IdentityFile $work/user
  UserKnownHostsFile $work/known
EOF
until ssh -F "$work/ssh" far true 2>/dev/null; do sleep 0.1; done

measure() { # TOOL RUN CSV COMMAND
    local tool=$1 run=$2 csv=$3 line
    shift 3
    line=$(timed "$tool" sh -c "$*")
    if diff -rq "$from" "$to/$(basename "$from")" >/dev/null 2>&1; then line+=,ok; else line+=,DIFFERS; fi
    echo "$tool,$run,$line" >>"$csv"
}

summary() { # CSV
    local tool base="" seconds processor
    for tool in $(cut -d, -f1 "$1" | awk '!seen[$0]++'); do
        seconds=$(awk -F, -v t="$tool" '$1 == t {print $3}' "$1" | middle)
        processor=$(awk -F, -v t="$tool" '$1 == t {print $4 + $5}' "$1" | middle)
        base=${base:-$seconds}
        awk -v t="$tool" -v s="$seconds" -v b="$base" -v p="$processor" -v bad="$(grep -c "^$tool,.*DIFFERS" "$1" || true)" \
            'BEGIN {printf "%-12s %7.2f s  %5.2f   processor here %6.2f s%s\n", t, s, s / b, p, (bad > 0) ? "   NOT THE SAME" : ""}'
    done
}

from=$work/data/src/tree
for workload in "$@"; do
    rm -rf "$work"/data/*
    mkdir -p "$from"
    case $workload in
        large) head -c 2147483648 /dev/urandom >"$from/big" ;;
        small) "$bin/haul-mktree" spread "$from" 20 100 6500 ;;
        unchanged) "$bin/haul-mktree" spread "$from" 40 944 100 ;;
        *) exit 2 ;;
    esac
    for way in put get; do
        csv=$out/ssh-$workload-$way.csv
        : >"$csv"
        to=$work/data/dst
        rm -rf "$to"
        [ "$workload" = unchanged ] && mkdir -p "$to" && cp -a "$from" "$to/"
        for run in $(seq "$runs"); do
            for tool in scp rsync haul; do
                [ "$workload" = unchanged ] || { rm -rf "$to" && mkdir -p "$to"; }
                [ "$way" = put ] && ends="$from far:$to/" || ends="far:$from $to/"
                case $tool in
                    scp) [ "$workload" = unchanged ] || measure scp "$run" "$csv" scp -q -r -F "$work/ssh" $ends ;;
                    rsync) measure rsync "$run" "$csv" rsync -a -e "'ssh -F $work/ssh'" $ends ;;
                    haul) measure haul "$run" "$csv" "$haul" cp -q -F "$work/ssh" $ends ;;
                esac
            done
        done
        echo "== $workload, $way (loopback, $(nproc) processors, median of $runs, ratio to the first tool)"
        summary "$csv"
    done
done
