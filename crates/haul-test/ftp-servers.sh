#!/bin/sh
# Installs the FTP servers that tests start below target/servers/ftp: vsftpd, which Debian would not install beside ProFTPD, and
# pyftpdlib. What is there is kept.
set -eu
cd "$(dirname "$0")/../.."

pyftpdlib=pyftpdlib==2.1.0
place=$PWD/target/servers/ftp
mkdir -p "$place"

if [ ! -x "$place/vsftpd/usr/sbin/vsftpd" ]; then
    echo "== installing vsftpd"
    rm -rf "$place/vsftpd" "$place/debs"
    mkdir -p "$place/debs"
    # As root apt would use another user, who may not write here.
    (cd "$place/debs" && apt-get -o APT::Sandbox::User=root download -qq vsftpd)
    dpkg -x "$place"/debs/vsftpd_*.deb "$place/vsftpd"
    rm -rf "$place/debs"
fi
if [ "$(cat "$place/pyftpdlib.version" 2>/dev/null)" != "$pyftpdlib" ]; then
    echo "== installing $pyftpdlib"
    rm -rf "$place/pyftpdlib"
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --target "$place/pyftpdlib" "$pyftpdlib"
    echo "$pyftpdlib" >"$place/pyftpdlib.version"
fi
