#!/bin/sh
# Installs the FTP servers that tests start below target/servers/ftp: vsftpd and Pure-FTPd, which Debian would not install beside
# ProFTPD, and pyftpdlib. What is there is kept.
set -eu
cd "$(dirname "$0")/../.."

pyftpdlib=pyftpdlib==2.1.0
place=$PWD/target/servers/ftp
mkdir -p "$place"

# unpacked NAME PACKAGE PROGRAM
unpacked() {
    [ ! -x "$place/$1/$3" ] || return 0
    echo "== installing $1"
    rm -rf "$place/$1" "$place/debs"
    mkdir -p "$place/debs"
    # As root apt would use another user, who may not write here.
    (cd "$place/debs" && apt-get -o APT::Sandbox::User=root download -qq "$2")
    dpkg -x "$place"/debs/*.deb "$place/$1"
    rm -rf "$place/debs"
}
unpacked vsftpd vsftpd usr/sbin/vsftpd
unpacked pure-ftpd pure-ftpd usr/sbin/pure-ftpd
if [ "$(cat "$place/pyftpdlib.version" 2>/dev/null)" != "$pyftpdlib" ]; then
    echo "== installing $pyftpdlib"
    rm -rf "$place/pyftpdlib"
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --target "$place/pyftpdlib" "$pyftpdlib"
    echo "$pyftpdlib" >"$place/pyftpdlib.version"
fi
