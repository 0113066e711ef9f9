#!/bin/bash
# Times haul against s5cmd and rclone on an object store, in turn, each put into a bucket made that moment.
#
#   bench/objects.sh [-r RUNS] [-o OUT] [--dir DIR] [--trees DIR] [-s N] [-n OBJECTS]
#                    [--round-trip MS [--link [--rate RATE]]] [-j LIST] [--before PROGRAM] [--no-rclone]
#                    [-w WORK]...
#   WORK: put-many, get-many    100 objects of 10 MiB
#         put-small, get-small  2,000 objects of 6.5 kB
#         put-large, get-large  one object of 2 GiB
#         unchanged             sync of a tree of OBJECTS files (1,000,000) with as many objects that are the same
#   with --round-trip: far-put-many, far-get-many (100 x 10 MiB), far-put-large, far-get-large (1 GiB),
#         far-put-ten, far-get-ten (10 x 10 MiB)
#
# Without -w: the first six, or with --round-trip the first four of its six. RUNS is 5. -s makes counts or sizes N times
# smaller, to try the script. --trees names where files are sent from and received (TMPDIR, else /var/tmp).
#
# --before names another haul, which takes its turn as "haul (before)". docs/benchmarks.md has the rows of, with
# --trees /dev/shm: -w get-large -w get-many; --round-trip 20 -w far-put-ten; --round-trip 50 --link --rate 125M -w far-get-many.
#
# The server is a MinIO that this script starts, on loopback with its data below DIR (/dev/shm); programs are looked for in
# HAUL_TEST_SERVERS, target/servers/bin and PATH. Server and client share the processors: the client's own processor time
# is the firmer figure. Each tool runs with its defaults, rclone with --transfers 16. haul alone sends and compares
# checksums of its own choice (CRC64NVME here); objects to be got are put by haul, so that there is one to compare.
# After each run, outside of its time, what was put is read back by another tool (haul's and rclone's by s5cmd, s5cmd's by
# haul) and compared byte by byte with the source, as is what was got.
#
# --round-trip compares haul's own choice of workers with a sweep of fixed ones (-j LIST, "1 2 4 8 16 32 64"), and with ten
# objects haul with s5cmd and rclone. haul-objects stands before the server then and delays every request by MS, and the first
# of a connection by twice that. It passes bodies as they come, with no window and no rate of a network. 400 MiB took no longer
# through it than without it, either way, within the noise.
# --link takes an emulated link in its place, of MS/2 each way and RATE (1250M, bytes a second), with real TCP on it; it needs
# root.
#
# "unchanged" writes the objects below MinIO's own hands: haul puts one of each directory, and its file is copied for the
# others, which have the same content, mode and time. "haul sync (first)" is without what haul remembers of the bucket.
#
# Builds what it measures (common.sh). Needs 4 times the largest object free below DIR and twice that for the trees. Writes one CSV
# line a run to OUT/objects-WORK.csv (tool,run,seconds,user,sys,peak_kib,checked,server_seconds) and the host's facts to
# OUT/objects-host.txt; prints medians and ratios to s5cmd.
set -euo pipefail
script=$(realpath "$0")
. "$(dirname "$script")/common.sh"
runs=5 out=bench/runs/$(date -u +%Y-%m-%d) dir=/dev/shm smaller=1 objects=1000000 round_trip=0 link="" rate=1250M trees=${TMPDIR:-/var/tmp} before="" no_rclone="" fixed="1 2 4 8 16 32 64" works=()
usage() { sed -n '4,13s/^# \{0,1\}//p' "$script" >&2; exit 2; }
given=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        -r) runs=$2 ;;
        -o) out=$2 ;;
        --dir) dir=$2 ;;
        -s) smaller=$2 ;;
        -n) objects=$2 ;;
        --trees) trees=$2 ;;
        --round-trip) round_trip=$2 ;;
        --rate) rate=$2 ;;
        --before) before=$2 ;;
        -j) fixed=$2 ;;
        -w) works+=("$2") ;;
        --link) link=yes && shift && continue ;;
        --no-rclone) no_rclone=yes && shift && continue ;;
        *) usage ;;
    esac
    shift 2 || usage
done
if [ ${#works[@]} = 0 ]; then
    works=(put-many put-small put-large get-large get-many get-small)
    [ "$round_trip" = 0 ] || works=(far-put-many far-put-large far-get-many far-get-large)
fi
for work in "${works[@]}"; do
    case $work in
        put-many | put-small | put-large | get-many | get-small | get-large | unchanged) [ "$round_trip" = 0 ] || usage ;;
        far-put-many | far-put-large | far-put-ten | far-get-many | far-get-large | far-get-ten) [ "$round_trip" != 0 ] || usage ;;
        *) usage ;;
    esac
done

program() {
    local place
    for place in "${HAUL_TEST_SERVERS:-}" target/servers/bin; do
        [ -z "$place" ] || [ ! -x "$place/$1" ] || { realpath "$place/$1" && return; }
    done
    command -v "$1" || true
}
minio=$(program minio) s5cmd=$(program s5cmd) rclone=$([ -n "$no_rclone" ] || program rclone)
for needed in "$haul" "$minio" "$s5cmd"; do
    [ -x "$needed" ] || { echo "objects.sh: haul, minio and s5cmd are needed; one is missing" >&2 && exit 1; }
done

if [ -z "${HAUL_BENCH_OBJECTS:-}" ]; then
    export AWS_ACCESS_KEY_ID=bench-access-key AWS_SECRET_ACCESS_KEY=bench-secret-key-of-40-characters-000000 AWS_REGION=us-east-1
    unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3
    work=$(mktemp -d "$trees/haul-bench.XXXXXX")
    data=$(mktemp -d "$dir/haul-bench.XXXXXX")
    server=""
    cleanup() {
        [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
        rm -rf "$work" "$data"
    }
    trap cleanup EXIT
    mkdir -p "$out" "$work/home"
    need=$((8589934592 / smaller))
    [[ " ${works[*]} " != *" unchanged "* ]] || need=$((need + objects * 6000))
    read -r free inodes < <(df --output=avail,iavail -B1 "$data" | tail -n 1)
    [ "$free" -ge "$need" ] || { echo "objects.sh: $dir has $((free >> 20)) MiB free, and $((need >> 20)) are needed; see --dir" >&2 && exit 1; }
    if [[ " ${works[*]} " == *" unchanged "* ]] && [ "$inodes" -lt $((objects * 2 + objects / 10)) ]; then
        echo "objects.sh: $dir has room for $inodes names, and two an object are needed; see --dir or -n" >&2 && exit 1
    fi
    {
        date -u +%Y-%m-%dT%H:%M:%SZ
        echo "$(nproc) processors: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
        uname -sr
        free -m | awk '/^Mem/ {print $2 " MiB of memory"}'
        echo "data of the server: $dir, $(df --output=fstype "$data" | tail -n 1)"
        echo "trees: ${work%/*}, $(df --output=fstype "$work" | tail -n 1)"
        "$haul" --version
        "$minio" --version | head -n 1
        echo "s5cmd $("$s5cmd" version)"
        if [ -n "$rclone" ]; then "$rclone" version | head -n 1; else echo "rclone: left out"; fi
        echo "called with: ${given[*]}"
    } | tee "$out/objects-host.txt"
    for _ in $(seq 100); do
        port=$((10000 + RANDOM % 20000))
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    mkdir "$data/drive"
    start="env HOME=$work/home MINIO_ROOT_USER=$AWS_ACCESS_KEY_ID MINIO_ROOT_PASSWORD=$AWS_SECRET_ACCESS_KEY MINIO_BROWSER=off"
    start+=" MINIO_REGION=$AWS_REGION MINIO_UPDATE=off MINIO_CI_CD=on $minio server --address :$port $data/drive"
    again=(env HAUL_BENCH_OBJECTS="$work:$data" "$script" "${given[@]}")
    if [ -n "$link" ]; then
        AWS_ENDPOINT_URL="http://10.99.0.2:$port" "$bin/haul-link" --delay "$(awk "BEGIN {print $round_trip / 2}")ms" --rate "$rate" \
            --far "exec $start >$work/server 2>&1" -- "${again[@]}"
    elif [ "$round_trip" != 0 ]; then
        TMPDIR=$data HAUL_TEST_SERVERS=${minio%/*} "$bin/haul-objects" --round-trip "$round_trip" -- "${again[@]}"
    else
        $start >"$work/server" 2>&1 &
        server=$!
        AWS_ENDPOINT_URL="http://127.0.0.1:$port" HAUL_BENCH_SERVER=$server "${again[@]}"
    fi
    exit
fi
work=${HAUL_BENCH_OBJECTS%:*} data=${HAUL_BENCH_OBJECTS#*:}
export HAUL_STATE_DIR=$work/state S3_ENDPOINT_URL=$AWS_ENDPOINT_URL
for _ in $(seq 300); do
    "$s5cmd" ls >/dev/null 2>&1 && break
    sleep 0.1
done
printf '%s\n' "[bench]" "type = s3" "provider = Minio" "endpoint = $AWS_ENDPOINT_URL" "access_key_id = $AWS_ACCESS_KEY_ID" \
    "secret_access_key = $AWS_SECRET_ACCESS_KEY" "region = $AWS_REGION" >"$work/rclone.conf"
remote() { "$rclone" --config "$work/rclone.conf" "$@"; }
tools=(s5cmd haul)
[ -z "$before" ] || tools+=("haul (before)")
[ -z "$rclone" ] || tools+=(rclone)

# at_least COUNT: so many times smaller, and not less than 2.
at_least() { echo $(($1 / smaller > 2 ? $1 / smaller : 2)); }

# sources KIND: a directory with what is to be moved, made once.
sources() {
    local place=$work/$1
    [ ! -d "$place" ] || return 0
    case $1 in
        many) "$bin/haul-mktree" flat "$place" "$(at_least 100)" 10485760 ;;
        ten) "$bin/haul-mktree" flat "$place" "$(at_least 10)" 10485760 ;;
        small) "$bin/haul-mktree" flat "$place" "$(at_least 2000)" 6500 ;;
        large) mkdir "$place" && head -c $((2147483648 / smaller)) /dev/urandom >"$place/big" ;;
        giant) mkdir "$place" && head -c $((1073741824 / smaller)) /dev/urandom >"$place/big" ;;
    esac
}

# command_of TOOL WAY KIND PLACE BUCKET: as a user would write it; the result is in the array "command".
command_of() {
    local tree=$4 address=s3://$5/p/ far=bench:$5/p each='*' program=$haul
    [ "$1" != "haul (before)" ] || program=$before
    case $3 in large | giant) tree=$4/big address=s3://$5/p/big far=bench:$5/p each='' ;; *) tree=$4/ ;; esac
    case $1-$2 in
        haul*-put) command=("$program" cp -q "$tree" "$address") ;;
        haul*-get) command=("$program" cp -q "$address" "$tree") ;;
        s5cmd-put) command=("$s5cmd" cp "$tree$each" "$address") ;;
        s5cmd-get) command=("$s5cmd" cp "$address$each" "$tree") ;;
        rclone-put) command=("$rclone" --config "$work/rclone.conf" copy --transfers 16 --s3-no-check-bucket "$tree" "$far") ;;
        rclone-get) command=("$rclone" --config "$work/rclone.conf" copy --transfers 16 --s3-no-check-bucket "$far" "$4") ;;
    esac
    [ "$1" != "${1#haul -j }" ] && command+=(-j "${1#haul -j }") || true
}

move() { # TOOL WAY KIND PLACE BUCKET, not timed
    local command
    command_of "$@"
    "${command[@]}" >"$work/out" 2>"$work/err" || tail -n 5 "$work/err" >&2
}

made=0
bucket() { # a new one in $b
    made=$((made + 1)) b=bench-$made-$$
    "$s5cmd" mb "s3://$b" >/dev/null
}

drop() { # BUCKET
    "$s5cmd" rm "s3://$1/*" >/dev/null 2>"$work/err" || tail -n 5 "$work/err" >&2
    "$s5cmd" rb "s3://$1" >/dev/null || true
}

same() { diff -rq "$1" "$2" >"$work/diff" 2>&1 && echo ok || echo DIFFERS; }

# Processor time of the server, in hundredths of a second; 0 where it is not this script's child.
spent() { awk '{print $14 + $15}' "/proc/${HAUL_BENCH_SERVER:-none}/stat" 2>/dev/null || echo 0; }

measure() { # TOOL RUN CSV WAY KIND PLACE BUCKET
    local tool=$1 run=$2 csv=$3 spent_before line checked command
    shift 3
    command_of "$tool" "$@"
    spent_before=$(spent)
    line=$(timed "$tool" "${command[@]}")
    line+=,$(awk "BEGIN {print ($(spent) - $spent_before) / $(getconf CLK_TCK)}")
    if [ "$1" = put ]; then
        rm -rf "$work/back" && mkdir "$work/back"
        case $tool in s5cmd) move haul get "$2" "$work/back" "$4" ;; *) move s5cmd get "$2" "$work/back" "$4" ;; esac
        checked=$(same "$work/$2" "$work/back")
        rm -rf "$work/back"
    else
        checked=$(same "$work/$2" "$3")
    fi
    echo "$tool,$run,${line%,*},$checked,${line##*,}" >>"$csv"
}

of() { awk -F, -v tool="$2" "\$1 == tool {print $1}" "$3" | middle; } # EXPRESSION TOOL CSV

summary() { # WORK CSV
    local tool seconds base="" base_spent
    echo "== $1 ($(nproc) processors, data of the server on $(df --output=fstype "$data" | tail -n 1), median of $runs, ratio to the first)"
    cut -d, -f1 "$2" | awk '!seen[$0]++' | while read -r tool; do
        seconds=$(of '$3' "$tool" "$2") spent=$(of '$4 + $5' "$tool" "$2")
        base=${base:-$seconds} base_spent=${base_spent:-$spent}
        awk -v t="$tool" -v s="$seconds" -v b="$base" -v c="$spent" -v d="$base_spent" -v p="$(of '$6' "$tool" "$2")" \
            -v far="$(of '$8' "$tool" "$2")" -v bad="$(awk -F, -v t="$tool" '$1 == t && $7 != "ok"' "$2" | wc -l)" \
            'function ratio(a, b) {return b > 0 ? sprintf("%.2f", a / b) : "-"}
             BEGIN {printf "%-22s %8.2f s  %5s   processor %7.2f s  %5s   peak %7.1f MiB   server %7.2f s%s\n",
                    t, s, ratio(s, b), c, ratio(c, d), p / 1024, far, bad ? "   NOT COMPLETE" : ""}'
    done
    [ -n "$rclone" ] || echo "rclone: left out"
}

compare() { # WORK WAY KIND TOOL...
    local csv=$out/objects-$1.csv way=$2 kind=$3 name=$1 run tool b
    shift 3
    : >"$csv"
    sources "$kind"
    [ "$way" = put ] || { bucket && move haul put "$kind" "$work/$kind" "$b"; }
    for run in $(seq "$runs"); do
        for tool in "$@"; do
            if [ "$way" = put ]; then
                bucket
                measure "$tool" "$run" "$csv" put "$kind" "$work/$kind" "$b"
                drop "$b"
                sleep 0.5 # the server throws away what was dropped
            else
                rm -rf "$work/dst" && mkdir "$work/dst"
                measure "$tool" "$run" "$csv" get "$kind" "$work/dst" "$b"
            fi
        done
    done
    [ "$way" = put ] || drop "$b"
    rm -rf "$work/dst"
    summary "$name" "$csv"
}

sweep() { # WORK WAY KIND: haul's own choice of workers beside fixed ones
    local csv=$out/objects-$1.csv tools=(haul) j best="" at="" seconds own
    [ -z "$before" ] || tools+=("haul (before)")
    for j in $fixed; do tools+=("haul -j $j"); done
    compare "$1" "$2" "$3" "${tools[@]}"
    for j in $fixed; do
        seconds=$(of '$3' "haul -j $j" "$csv")
        if [ -z "$best" ] || awk "BEGIN {exit !($seconds < $best)}"; then best=$seconds at=$j; fi
    done
    own=$(of '$3' haul "$csv")
    awk "BEGIN {printf \"its own choice reaches %.0f %% of the best fixed one (-j $at)\n\", 100 * $best / $own}"
}

unchanged() {
    local csv=$out/objects-unchanged.csv tree=$work/tree b run tool dirs=$((objects / 1000 > 0 ? objects / 1000 : 1)) each
    each=$((objects / dirs))
    : >"$csv"
    bucket
    "$bin/haul-mktree" spread "$tree" "$dirs" 1 100
    find "$tree" -exec touch -d '2024-05-06 07:08:09.123456789' {} +
    (cd "$tree" && find . -type f) >"$work/firsts"
    "$haul" cp -q "$tree/" "s3://$b/t/"
    # MinIO keeps a small object in one file, which does not hold its name.
    python3 -c '
import os, sys
tree, drive, each = sys.argv[1], sys.argv[2], int(sys.argv[3])
for line in open(sys.argv[4]):
    first = line.rstrip("\n")
    top = os.path.dirname(first)
    with open(f"{drive}/{first}/xl.meta", "rb") as file:
        kept = file.read()
    with open(f"{tree}/{first}", "rb") as file:
        content = file.read()
    before = os.stat(f"{tree}/{top}")
    like = os.stat(f"{tree}/{first}")
    for number in range(1, each):
        name = f"{top}/g{number:06}"
        with open(f"{tree}/{name}", "wb") as file:
            file.write(content)
        os.utime(f"{tree}/{name}", ns=(like.st_mtime_ns, like.st_mtime_ns))
        os.mkdir(f"{drive}/{name}")
        with open(f"{drive}/{name}/xl.meta", "wb") as file:
            file.write(kept)
    os.utime(f"{tree}/{top}", ns=(before.st_mtime_ns, before.st_mtime_ns))
' "$tree" "$data/drive/$b/t" "$each" "$work/firsts"
    for run in $(seq "$runs"); do
        rm -rf "$work/state"
        kept "$run" "haul sync (first)" "$haul" sync --stat "$tree/" "s3://$b/t/"
        kept "$run" "haul sync" "$haul" sync --stat "$tree/" "s3://$b/t/"
        kept "$run" "haul sync --size-only" "$haul" sync --stat --size-only "$tree/" "s3://$b/t/"
        kept "$run" "s5cmd sync" "$s5cmd" sync "$tree/" "s3://$b/t/"
        [ -z "$rclone" ] ||
            kept "$run" "rclone sync --checksum" "$rclone" --config "$work/rclone.conf" sync --checksum --fast-list "$tree" "bench:$b/t"
    done
    rm -rf "$data/drive/$b" # faster than asking for it
    summary unchanged "$csv"
}

# kept RUN TOOL COMMAND...: a sync that must move nothing; the newest object tells.
kept() {
    local run=$1 tool=$2 spent_before line checked=ok
    shift 2
    touch "$work/before"
    spent_before=$(spent)
    line=$(timed "$tool" "$@")
    line+=,$(awk "BEGIN {print ($(spent) - $spent_before) / $(getconf CLK_TCK)}")
    [ -z "$(find "$data/drive" -path '*/t/*' -newer "$work/before" -name xl.meta -print -quit)" ] || checked=MOVED
    echo "$tool,$run,${line%,*},$checked,${line##*,}" >>"$csv"
}

for name in "${works[@]}"; do
    case $name in
        far-*-large) way=${name#far-} && sweep "$name" "${way%-large}" giant ;;
        far-*-ten) way=${name#far-} && compare "$name" "${way%-ten}" ten "${tools[@]}" ;;
        far-*-many) way=${name#far-} && sweep "$name" "${way%-many}" many ;;
        unchanged) unchanged ;;
        *) compare "$name" "${name%-*}" "${name#*-}" "${tools[@]}" ;;
    esac
done
