//! The program over ssh, against an OpenSSH server of its own on loopback.

mod hostile;
mod limits;
mod logins;
mod makes;
mod masters;
mod network;
mod plain;
mod remote_disk;
mod shells;
mod stale_sizes;
mod support;
