#!/bin/bash
# Does again, on this machine and in shape, the studies that haul grew from: docs/benchmarks.md shows what came of it.
#
#   bench/references.sh [-r REPEAT] [-o OUT] [-s SCALE] [STUDY]...
#   STUDY: kaust      cp beside several copies at once of many small files, on a file system that answers slowly
#          efs-tools  rsync, cp, fpsync on files of 1 MiB, on the same
#          efs-files  files created a second by threads, in one directory and in one each, on the same
#          epcc       a link by streams and direction, and scp, sftp beside haul by the size of a file
#          grid       the same with a GridFTP server: globus-url-copy and haul by streams, and by the size of a file, and local copies
#          uab        s5cmd's workers and concurrency on an object store, and the time for 13 TB
#          arcts      scp beside others on one large file and on many
#
# Everything that was a network or a far storage there is emulated here, and each run directory says so: haul-slowfs is a
# file system in FUSE that answers each request late (4 ms for metadata, 2 ms for data), haul-link two network namespaces
# with a delay and a rate between them, haul-objects a MinIO behind a delay. Data are made by `haul bench data`, SCALE
# (default 10) times fewer of them. Writes OUT/STUDY*/ (bench/runs/DATE/references). Builds haul (common.sh). Needs root
# and the tools that are to be measured.
set -euo pipefail
script=$(realpath "$0")
. "$(dirname "$script")/common.sh"
repeat=3 out=bench/runs/$(date -u +%Y-%m-%d)/references scale=10
while getopts r:o:s: flag; do
    case $flag in
        r) repeat=$OPTARG ;;
        o) out=$OPTARG ;;
        s) scale=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
studies=("$@")
[ $# -gt 0 ] || studies=(kaust efs-tools efs-files epcc grid uab arcts)
mkdir -p "$out"
out=$(realpath "$out")
if [ -n "${HAUL_REFERENCES:-}" ]; then
    work=${HAUL_REFERENCES%%:*} fast=${HAUL_REFERENCES#*:}
else
    work=$(mktemp -d /var/tmp/haul-references.XXXXXX)
    fast=$(mktemp -d /dev/shm/haul-references.XXXXXX)
    trap clean_up EXIT
fi
mounted=""
clean_up() {
    [ -z "$mounted" ] || umount "$mounted" 2>/dev/null || true
    rm -rf "$work" "$fast"
}

export HAUL_STATE_DIR=$work/state

# at_least COUNT LEAST
at_least() { echo $(($1 / scale > $2 ? $1 / scale : $2)); }

# slow_place NAME: a directory on a file system that answers late, in $slow.
slow_place() {
    [ -z "$mounted" ] || umount "$mounted"
    mkdir -p "$fast/behind-$1" "$work/slow-$1"
    slow=$work/slow-$1 mounted=$work/slow-$1
    "$bin/haul-slowfs" --metadata-ms 4 --data-ms 2 --threads 64 "$fast/behind-$1" "$slow" &
    for _ in $(seq 100); do
        mountpoint -q "$slow" && return
        sleep 0.1
    done
    echo "references.sh: the slow file system did not come up" >&2
    exit 1
}

# A table of haul with fixed numbers of workers, as the reference had processes.
fixed_workers() { # ROUTE N...
    local route=$1 n
    shift
    for n in "$@"; do
        printf '%s\n' "[haul-$n]" "version = {haul} --version" "$route = {haul} cp -q {haul_options} -j $n {from} {to}"
    done
}

kaust() {
    slow_place kaust
    "$haul" bench data 37760x6695B --scale "$((scale * 4))" --per-dir 50 "$fast/kaust"
    fixed_workers local-local 1 4 16 32 >"$work/kaust.conf"
    "$haul" bench compare --table "$work/kaust.conf" --tools cp,haul-1,haul-4,haul-16,haul-32,haul,rsync --repeat "$repeat" \
        --caches warm --out "$out/kaust" "$fast/kaust" "$slow/copies"
    rm -rf "$fast/kaust"
}

efs-tools() {
    slow_place efs
    "$haul" bench data "$(at_least 5000 20)x1MiB" "$fast/efs"
    "$haul" bench compare --tools rsync,cp,fpsync,haul --threads $(($(nproc) * 4)) --repeat "$repeat" --caches warm --extrapolate 13TB \
        --out "$out/efs-tools" "$fast/efs" "$slow/copies"
    rm -rf "$fast/efs"
}

efs-files() {
    slow_place files
    "$haul" bench files --operation create --threads 1,2,4,8,16,32 --total $(at_least 10240 256) --file-size 4KiB --same-dir both --repeat "$repeat" \
        --out "$out/efs-files" "$slow"
}

# linked DELAY RATE LOSS STUDY: the study again, at the near end of a link with an SSH server at the far one, called "far".
linked() {
    mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N "" -f "$work/host"
    ssh-keygen -q -t ed25519 -N "" -f "$work/user"
    cp "$work/user.pub" "$work/keys"
    printf '%s\n' "Port 2222" "ListenAddress 0.0.0.0" "HostKey $work/host" "AuthorizedKeysFile $work/keys" "PidFile none" "UsePAM no" \
        "StrictModes no" "SetEnv PATH=${haul%/*}:/usr/bin:/bin" "PermitRootLogin yes" "MaxSessions 64" "MaxStartups 64" "Subsystem sftp /usr/lib/openssh/sftp-server" >"$work/sshd"
    printf '%s\n' "Host far" "  HostName 10.99.0.2" "  Port 2222" "  User root" "  IdentityFile $work/user" \
        "  StrictHostKeyChecking accept-new" "  UserKnownHostsFile $work/known" "  LogLevel ERROR" >"$work/ssh"
    env work="$work" fast="$fast" out="$out" PATH="${haul%/*}:$bin:$PATH" "$bin/haul-link" --delay "$1" --rate "$2" --loss "$3" \
        --far "${5:-} exec /usr/sbin/sshd -D -e -f $work/sshd 2>$work/log" -- env HAUL_REFERENCES="$work:$fast" "$script" -r "$repeat" -s "$scale" -o "$out" "$4"
    rm -f "$work/host"* "$work/user"*
}

until_far() {
    for _ in $(seq 100); do
        ssh -F "$work/ssh" far true 2>/dev/null && return
        sleep 0.1
    done
    echo "references.sh: the far side did not come up" >&2
    exit 1
}

epcc-near() {
    until_far
    "$haul" bench net --ssh-config "$work/ssh" --streams 1,2,4,6,8,16 --repeat "$repeat" --seconds 2 --out "$out/epcc-net" far
    local size
    for size in 1MiB 16MiB 256MiB; do
        "$haul" bench data "1x$size" "$fast/epcc-$size"
        "$haul" bench compare --ssh-config "$work/ssh" --tools scp,sftp,haul --repeat "$repeat" --caches warm \
            --out "$out/epcc-$size-put" "$fast/epcc-$size" "far:$fast/copies-$size"
        "$haul" bench compare --ssh-config "$work/ssh" --tools scp,sftp,haul --repeat "$repeat" --caches warm \
            --out "$out/epcc-$size-get" "far:$fast/epcc-$size" "$fast/copies-$size"
    done
}

# Figures 1 to 6 of the reference: seconds by streams in both directions, by the size of a file, and of local copies.
grid-near() {
    until_far
    local n size way grid=ftp://10.99.0.2:2811
    for _ in $(seq 100); do
        ! curl -sf "$grid/" >/dev/null || break
        sleep 0.1
    done
    for n in 1 2 4 6 8 16; do
        printf '%s\n' "[haul-$n]" "version = {haul} --version" "local-ftp = {haul} cp -q --streams $n {from} {to}" \
            "ftp-local = {haul} cp -q --streams $n {from} {to}" "[globus-url-copy-$n]" "version = globus-url-copy -version" \
            "local-ftp.file = globus-url-copy -p $n -fast file://{src:url} {origin}{copy:url}" \
            "ftp-local.file = globus-url-copy -p $n -fast {origin}{src:url} file://{copy:url}"
    done >"$work/grid.conf"
    both() { # NAME FILE TOOLS REPEAT
        "$haul" bench compare --table "$work/grid.conf" --tools "$3" --repeat "$4" --caches warm --out "$out/grid-$1-put" \
            "$2" "$grid$fast/copies-$1"
        "$haul" bench compare --table "$work/grid.conf" --tools "$3" --repeat "$4" --caches warm --out "$out/grid-$1-get" \
            "$grid$2" "$fast/copies-$1"
    }
    for size in 1 16 64 256; do
        head -c $((size << 20)) /dev/urandom >"$fast/grid-$size"
        both "${size}MiB" "$fast/grid-$size" globus-url-copy-1,globus-url-copy-6,haul "$repeat"
        "$haul" bench compare --tools cp,haul --repeat "$repeat" --caches warm --out "$out/grid-${size}MiB-local" "$fast/grid-$size" \
            "$fast/copies-local-$size"
    done
    both streams "$fast/grid-256" "$(printf 'haul-%s,globus-url-copy-%s,' 1 1 2 2 4 4 6 6 8 8 16 16 | sed 's/,$//')" 2
    for way in put get; do
        "$haul" bench report --out "$out/grid-$way.html" "$out"/grid-{1,16,64,256}MiB-"$way"
    done
}
arcts-near() {
    until_far
    "$haul" bench data "1x$((5091 / scale))MiB" "$fast/large"
    "$haul" bench data "$((5093 / scale))x1MiB" "$fast/many"
    local work_is
    for work_is in large many; do
        "$haul" bench compare --ssh-config "$work/ssh" --tools scp,sftp,rsync,tar,lftp,haul --repeat "$repeat" --caches warm \
            --out "$out/arcts-$work_is" "$fast/$work_is" "far:$fast/copies"
    done
}

# Half of 10 ms and 20 ms of round trip; the rates are those of the day.
epcc() { linked 5ms 60M 0.0001 epcc-near; }
grid() { linked 5ms 60M 0.0001 grid-near "GLOBUS_HOSTNAME=localhost globus-gridftp-server -aa -allow-root -anonymous-user root -control-interface 0.0.0.0 -p 2811 &"; }
arcts() { linked 30ms 60M 0 arcts-near; }

uab-near() {
    local set
    printf '%s\n' "[s5cmd-8]" "version = s5cmd version" "local-s3.dir = s5cmd --numworkers=8 --endpoint-url={endpoint} cp {src}/ s3://{bucket}/{key}/{name}/" \
        "[s5cmd-100]" "version = s5cmd version" "local-s3.dir = s5cmd --numworkers=100 --endpoint-url={endpoint} cp {src}/ s3://{bucket}/{key}/{name}/" \
        "[s5cmd-100-100]" "version = s5cmd version" \
        "local-s3.dir = s5cmd --numworkers=100 --endpoint-url={endpoint} cp --concurrency=100 {src}/ s3://{bucket}/{key}/{name}/" >"$work/uab.conf"
    for set in "$(at_least 1000 10)x10MiB" "$(at_least 39 2)x256MiB" "1x480MiB"; do
        "$haul" bench data "$set" "$fast/$set"
        "$haul" bench compare --table "$work/uab.conf" --tools s5cmd-8,s5cmd-100,s5cmd-100-100,rclone,haul --repeat "$repeat" --caches warm \
            --extrapolate 13TB --out "$out/uab-$set" "$fast/$set" "s3://uab-bench/$set/"
        rm -rf "${fast:?}/$set"
    done
}

uab() {
    TMPDIR=$fast PATH="${HAUL_TEST_SERVERS:-$PWD/target/servers/bin}:$PATH" "$bin/haul-objects" --bucket uab-bench --round-trip 20 -- \
        env HAUL_REFERENCES="$work:$fast" "$script" -r "$repeat" -s "$scale" -o "$out" uab-near
}

for study in "${studies[@]}"; do
    echo "== $study"
    "$study"
done
