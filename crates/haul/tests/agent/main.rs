//! The program with itself on the remote host of a real OpenSSH server on loopback.

mod support;

mod account;
mod changed;
mod command;
mod direct;
mod hostile;
mod kill;
mod leftover;
mod login;
mod network;
mod owners;
mod proxy;
mod tree;
mod way;
