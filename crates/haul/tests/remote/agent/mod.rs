//! The program with itself on the remote host of a real OpenSSH server on loopback.

mod account;
mod changed;
mod command;
mod confined;
mod direct;
mod full;
mod gone;
mod hostile;
mod kill;
mod leftover;
mod login;
mod network;
mod owners;
mod proxy;
mod route;
mod site;
mod support;
mod tree;
