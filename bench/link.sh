#!/bin/bash
# Times haul, by haul on the far side and by plain SFTP, against scp and rsync over an emulated link, in turn, onto tmpfs.
#
#   bench/link.sh [-n RUNS] [-o DIR] [-d DELAY] [-r RATE] [-l LOSS] WORKLOAD...
#   WORKLOAD: big (one file of 256 MiB), small (2,000 files of 6.5 kB in 20 directories), unchanged (sync of 37,760 files
#             that are the same), delta (1 GiB with 1 % changed in 100 places and 10 bytes inserted in front)
#
# DELAY is that of one way (25ms), RATE in bytes a second (125M), LOSS a share (0). Needs root, openssh-server and rsync; builds
# what it measures (common.sh). Writes one CSV line a run to DIR/link-<workload>-<way>[-loss].csv
# (tool,run,seconds,user,sys,peak_kib,checked) and prints medians. Both sides share the processors; user and system time
# are this side's. A login is in every time.
set -euo pipefail
. "$(dirname "$0")/common.sh"
runs=5 out=bench/runs/$(date -u +%Y-%m-%d) delay=25ms rate=125M loss=0
while getopts n:o:d:r:l: flag; do
    case $flag in
        n) runs=$OPTARG ;;
        o) out=$OPTARG ;;
        d) delay=$OPTARG ;;
        r) rate=$OPTARG ;;
        l) loss=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ -z "${HAUL_BENCH_LINK:-}" ]; then
    work=$(mktemp -d /var/tmp/haul-bench.XXXXXX)
    mkdir -p "$out" "$work/data" /run/sshd
    trap 'umount "$work/data" 2>/dev/null; rm -rf "$work"' EXIT
    mount -t tmpfs -o size=8G,nr_inodes=400k none "$work/data"
    ssh-keygen -q -t ed25519 -N "" -f "$work/host"
    ssh-keygen -q -t ed25519 -N "" -f "$work/user"
    cp "$work/user.pub" "$work/keys"
    printf '%s\n' "Port 2222" "ListenAddress 0.0.0.0" "HostKey $work/host" "AuthorizedKeysFile $work/keys" "PidFile none" \
        "UsePAM no" "StrictModes no" "PermitRootLogin yes" "Subsystem sftp /usr/lib/openssh/sftp-server" >"$work/sshd"
    printf '%s\n' "Host far" "  HostName 10.99.0.2" "  Port 2222" "  User root" "  IdentityFile $work/user" \
        "  StrictHostKeyChecking accept-new" "  UserKnownHostsFile $work/known" >"$work/ssh"
    HAUL_BENCH_LINK=$work "$bin/haul-link" --delay "$delay" --rate "$rate" --loss "$loss" \
        --far "exec /usr/sbin/sshd -D -e -f $work/sshd 2>$work/log" -- "$0" -n "$runs" -o "$out" -l "$loss" "$@"
    exit
fi
work=$HAUL_BENCH_LINK
export HAUL_STATE_DIR=$work/state
until ssh -F "$work/ssh" far true 2>/dev/null; do sleep 0.1; done
suffix=""
[ "$loss" = 0 ] || suffix=-loss

measure() { # TOOL RUN CSV COMMAND: what must be the same as $from afterwards is $to
    local tool=$1 run=$2 csv=$3 line
    shift 3
    line=$(timed "$tool" sh -c "$*")
    if diff -rq "$from" "$to" >/dev/null 2>&1; then line+=,ok; else line+=,DIFFERS; fi
    echo "$tool,$run,$line" >>"$csv"
}

summary() { # CSV
    local tool base="" seconds
    echo "$(basename "$1" .csv)"
    for tool in $(cut -d, -f1 "$1" | awk '!seen[$0]++'); do
        seconds=$(awk -F, -v t="$tool" '$1 == t {print $3}' "$1" | middle)
        [ -n "$base" ] || base=$seconds
        awk -v t="$tool" -v s="$seconds" -v b="$base" 'BEGIN {printf "  %-12s %7.2f s  %.2f\n", t, s, s / b}'
    done
    ! grep -q DIFFERS "$1" || echo "  WRONG COPIES: see $1"
}

remote="-F $work/ssh"
copy="$haul cp -q $remote"
agent="--agent $haul"
rsync="rsync -e 'ssh -F $work/ssh'"

# One tool after the other, the target made anew for each: "prepare" and "run" are functions of the workload.
turns() { # CSV TOOLS...
    local csv=$1 run tool
    shift
    : >"$csv"
    for run in $(seq "$runs"); do
        for tool in "$@"; do
            prepare
            measure "$tool" "$run" "$csv" "$(command_of "$tool")"
        done
    done
    summary "$csv"
}

both() { # WORKLOAD FROM TO TOOLS...: put and get
    local name=$1
    from=$2 to=$3
    shift 3
    for way in put get; do
        if [ $way = put ]; then s=$from d=far:$to; else s=far:$from d=$to; fi
        command_of() {
            case $1 in
                scp) echo "scp -q -r $remote $s $d" ;;
                rsync) echo "$rsync -a ${delta:-} $s $d" ;;
                rsync-rlpt) echo "$rsync -rlpt $s $d" ;;
                haul) echo "$copy $agent ${flags:-} $s $d" ;;
                haul-ssh) echo "$copy $agent --no-direct ${flags:-} $s $d" ;;
                haul-ssh-4) echo "$copy $agent --no-direct --logins 4 ${flags:-} $s $d" ;;
                haul-sftp) echo "$copy --no-agent ${flags:-} $s $d" ;;
            esac
        }
        turns "$out/link-$name-$way$suffix.csv" "$@"
    done
}

for workload in "$@"; do
    case $workload in
        big)
            head -c 268435456 /dev/urandom >"$work/data/big"
            prepare() { rm -rf "$work/data/copy"; }
            both big "$work/data/big" "$work/data/copy" scp rsync haul haul-ssh haul-ssh-4 haul-sftp
            ;;
        small)
            mkdir -p "$work/data/small"
            for dir in $(seq 20); do
                mkdir -p "$work/data/small/d$dir"
                head -c 650000 /dev/urandom | split -b 6500 - "$work/data/small/d$dir/f"
            done
            prepare() { rm -rf "$work/data/copy"; }
            both small "$work/data/small/" "$work/data/copy/" rsync haul haul-ssh haul-sftp
            ;;
        unchanged)
            mkdir -p "$work/data/many"
            for dir in $(seq 118); do
                mkdir -p "$work/data/many/d$dir"
                (cd "$work/data/many/d$dir" && seq -f 'f%g' 320 | xargs touch)
            done
            rm -rf "$work/data/copy"
            cp -a "$work/data/many" "$work/data/copy"
            prepare() { :; }
            both unchanged "$work/data/many/" "$work/data/copy/" rsync-rlpt haul haul-sftp
            rm -rf "$work/data/copy"
            ;;
        delta)
            head -c 1073741824 /dev/urandom >"$work/data/old"
            python3 - "$work/data" <<'PY'
import os, random, sys
random.seed(5)
data = bytearray(open(sys.argv[1] + "/old", "rb").read())
part = len(data) // 10000
for _ in range(100):
    at = random.randrange(0, len(data) - part)
    data[at:at + part] = os.urandom(part)
open(sys.argv[1] + "/new", "wb").write(b"0123456789" + bytes(data))
PY
            prepare() {
                cp "$work/data/old" "$work/data/copy"
                touch -d 2020-01-01 "$work/data/copy"
            }
            delta=--no-whole-file both delta "$work/data/new" "$work/data/copy" rsync haul
            rm "$work/data/old" "$work/data/new"
            ;;
    esac
done
