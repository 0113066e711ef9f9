//! The program over ssh, against an OpenSSH server of its own on loopback.

mod far_disk;
mod hostile;
mod logins;
mod network;
mod other_server;
mod plain;
mod shells;
mod support;
