//! The contract, asked of every store, and what the servers of object stores answer.

mod ftp;
mod gridftp;
mod licences;
mod local;
mod memory;
mod mode_e;
mod s3;
mod s3_answers;
mod s3_copy;
mod sftp;
mod web;
