//! Connections that several backends use: HTTP, TLS, TCP, secrets. It knows no store.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod child;
pub mod http_client;
pub mod netrc;
pub mod tcp;
pub mod terminal;
