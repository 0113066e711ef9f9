//! The program with itself on the far side of a real OpenSSH server on loopback.

mod support;

mod command;
mod tree;
mod way;
