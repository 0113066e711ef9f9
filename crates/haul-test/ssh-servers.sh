#!/bin/sh
# Installs the SSH servers of other makes that tests start below target/ssh-servers: Dropbear, which Debian's package would start,
# and asyncssh and paramiko from Python's index. What is there is kept. rclone, with its SFTP server, is a package of its own;
# sftpgo is missing: Go's module proxy refuses it.
set -eu
cd "$(dirname "$0")/../.."

python="asyncssh==2.24.1 paramiko==5.1.0"
place=$PWD/target/ssh-servers
mkdir -p "$place"

if [ ! -x "$place/dropbear/usr/sbin/dropbear" ]; then
    echo "== installing dropbear"
    rm -rf "$place/dropbear" "$place/debs"
    mkdir -p "$place/debs"
    # As root apt would use another user, who may not write here.
    (cd "$place/debs" && apt-get -o APT::Sandbox::User=root download -qq dropbear-bin libtomcrypt1 libtommath1)
    for package in "$place"/debs/*.deb; do
        dpkg -x "$package" "$place/dropbear"
    done
    rm -rf "$place/debs"
fi
if [ "$(cat "$place/python.version" 2>/dev/null)" != "$python" ]; then
    echo "== installing $python"
    rm -rf "$place/python"
    # shellcheck disable=SC2086
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --target "$place/python" $python
    echo "$python" >"$place/python.version"
fi
