//! Connections that several backends use: HTTP, TLS, TCP, multiplexing, secrets. It knows no store.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bounded;
pub mod child;
pub mod http_client;
pub mod link_saturation;
pub mod mux;
pub mod netrc;
pub mod private;
pub mod readahead;
pub mod reconnect;
pub mod tcp;
pub mod terminal;
