//! FTP, GridFTP and web servers.

mod ftp;
mod gridftp;
mod mode_e;
mod striped;
mod web;
