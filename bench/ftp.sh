#!/bin/bash
# Times haul against globus-url-copy, lftp, curl and aria2c: FTP servers over an emulated link, in turn, onto tmpfs.
#
#   bench/ftp.sh [-n RUNS] [-o DIR] [-d DELAY] [-r RATE] [-l LOSS] [-t TOOLS] WORKLOAD...
#   WORKLOAD: big (one file of 256 MiB), small (2,000 files of 6.5 kB in 20 directories)
#
# The servers are globus-gridftp-server (rows with gridftp), vsftpd, and vsftpd with lock_upload_files=NO (ranges), all in clear text. DELAY is that of one way
# (25ms), RATE in bytes a second (125M), LOSS a share (0), TOOLS a pattern of grep -E for the rows to measure. Needs root,
# globus-gridftp-server-progs, globus-gass-copy-progs, lftp, aria2, curl and what crates/haul-test/ftp-servers.sh installs; builds what it measures (common.sh). Writes one CSV line a run to
# DIR/ftp-<workload>-<way>[-loss].csv (tool,run,seconds,user,sys,peak_kib,checked) and prints medians. Both sides share the processors.
set -euo pipefail
. "$(dirname "$0")/common.sh"
runs=5 out=bench/runs/$(date -u +%Y-%m-%d) delay=25ms rate=125M loss=0 only=.
while getopts n:o:d:r:l:t: flag; do
    case $flag in
        n) runs=$OPTARG ;;
        o) out=$OPTARG ;;
        d) delay=$OPTARG ;;
        r) rate=$OPTARG ;;
        l) loss=$OPTARG ;;
        t) only=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
vsftpd=target/servers/ftp/vsftpd/usr/sbin/vsftpd
if [ -z "${HAUL_BENCH_FTP:-}" ]; then
    work=$(mktemp -d /var/tmp/haul-bench.XXXXXX)
    mkdir -p "$out" "$work/data" "$work/empty"
    trap 'umount "$work/data" 2>/dev/null; rm -rf "$work"' EXIT
    mount -t tmpfs -o size=4G,nr_inodes=400k none "$work/data"
    printf '%s\n' listen=YES listen_address=10.99.0.2 listen_port=2121 background=NO anonymous_enable=NO local_enable=YES write_enable=YES \
        local_umask=022 pam_service_name=vsftpd userlist_enable=NO check_shell=NO seccomp_sandbox=NO isolate=NO isolate_network=NO \
        "secure_chroot_dir=$work/empty" >"$work/vsftpd"
    # Another one, which writes ranges.
    { sed 's/2121/2122/' "$work/vsftpd" && echo lock_upload_files=NO; } >"$work/ranges"
    mkdir "$work/pam.d"
    printf '%s\n' "auth required pam_unix.so" "account required pam_permit.so" "session required pam_permit.so" >"$work/pam.d/vsftpd"
    (umask 077 && echo "root:$(openssl passwd -6 bench):19000:0:99999:7:::" >"$work/shadow")
    # For the server alone: the mounts are gone when it ends.
    plain="exec unshare --mount sh -c 'mount --bind $work/pam.d /etc/pam.d && mount --bind $work/shadow /etc/shadow && { $PWD/$vsftpd $work/ranges & exec $PWD/$vsftpd $work/vsftpd; }'"
    grid="GLOBUS_HOSTNAME=localhost globus-gridftp-server -aa -allow-root -anonymous-user root -control-interface 0.0.0.0 -p 2811"
    HAUL_BENCH_FTP=$work "$bin/haul-link" --delay "$delay" --rate "$rate" --loss "$loss" \
        --far "$grid & $plain" -- "$0" -n "$runs" -o "$out" -l "$loss" -t "$only" "$@"
    exit
fi
work=$HAUL_BENCH_FTP
export HAUL_STATE_DIR=$work/state
for server in "$HAUL_FAR:2811" "root:bench@$HAUL_FAR:2121" "root:bench@$HAUL_FAR:2122"; do
    for _ in $(seq 100); do
        ! curl -sf "ftp://$server/" >/dev/null || continue 2
        sleep 0.1
    done
    echo "no server answers at $server" >&2 && exit 1
done
grid=ftp://$HAUL_FAR:2811 plain=ftp://root:bench@$HAUL_FAR:2121 data=$work/data suffix=""
[ "$loss" = 0 ] || suffix=-loss

command_of() { # TOOL WAY: of $name
    local server=$grid from to away
    case $1 in
        *-ranges) server=${plain/2121/2122} ;;
        *vsftpd) server=$plain ;;
    esac
    # To these a path begins at the login directory.
    away=$server/%2F${data#/}
    case $2 in
        put) from=file://$data/$name to=$server$data/copy ;;
        get) from=$server$data/$name to=file://$data/copy ;;
    esac
    case $1-$kind in
        haul-p8-*) echo "$haul cp -q --streams 8 ${from#file://} ${to#file://}" ;;
        haul-*) echo "$haul cp -q ${from#file://} ${to#file://}" ;;
        guc-gridftp-big) echo "globus-url-copy -fast $from $to" ;;
        guc-p8-gridftp-big) echo "globus-url-copy -fast -p 8 $from $to" ;;
        guc-gridftp-small) echo "globus-url-copy -q -r -cd -cc 8 -fast -pp $from $to/" ;;
        lftp-*-big) [ "$2" = get ] && echo "lftp -c 'pget -n 8 $away/$name -o $data/copy'" || echo "lftp -c 'open $server; put $data/$name -o $data/copy'" ;;
        lftp-*-small) [ "$2" = get ] && echo "lftp -c 'open $server; mirror -P 16 $data/$name $data/copy'" || echo "lftp -c 'open $server; mirror -R -P 16 $data/$name $data/copy'" ;;
        curl-*) [ "$2" = get ] && echo "curl -sf -o $data/copy $away/$name" || echo "curl -sf -T $data/$name $away/copy" ;;
        aria2c-*) echo "aria2c -q -x 8 -s 8 -k 1M --file-allocation=none --allow-overwrite=true -d $data -o copy $away/$name" ;;
    esac
}

turns() { # WAY TOOLS...
    local way=$1 csv=$out/ftp-$kind-$1$suffix.csv run tool line
    shift
    : >"$csv"
    for run in $(seq "$runs"); do
        for tool in "$@"; do
            echo "$tool" | grep -qE "$only" || continue
            rm -rf "$data/copy"
            line=$(timed "$tool" sh -c "$(command_of "$tool" "$way")")
            if diff -rq "$data/$name" "$data/copy" >/dev/null 2>&1; then line+=,ok; else line+=,DIFFERS; fi
            echo "$tool,$run,$line" >>"$csv"
        done
    done
    basename "$csv" .csv
    for tool in $(cut -d, -f1 "$csv" | awk '!seen[$0]++'); do
        echo "  $tool: $(awk -F, -v t="$tool" '$1 == t {print $3}' "$csv" | middle) s"
    done
    ! grep -q DIFFERS "$csv" || echo "  WRONG COPIES: see $csv"
}

for kind in "$@"; do
    case $kind in
        big)
            name=big
            head -c 268435456 /dev/urandom >"$data/big"
            turns put haul-gridftp haul-p8-gridftp guc-gridftp guc-p8-gridftp haul-vsftpd lftp-vsftpd curl-vsftpd haul-ranges
            turns get haul-gridftp haul-p8-gridftp guc-gridftp guc-p8-gridftp haul-vsftpd lftp-vsftpd curl-vsftpd aria2c-vsftpd
            ;;
        small)
            name=small/
            for dir in $(seq 20); do
                mkdir -p "$data/small/d$dir"
                head -c 650000 /dev/urandom | split -b 6500 - "$data/small/d$dir/f"
            done
            turns put haul-gridftp guc-gridftp haul-vsftpd lftp-vsftpd
            turns get haul-gridftp guc-gridftp haul-vsftpd lftp-vsftpd
            ;;
    esac
done
