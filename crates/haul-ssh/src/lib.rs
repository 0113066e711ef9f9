//! SSH hosts: the login, SFTP, and haul itself at both ends (the agent).

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod agent;
mod bounded;
mod link_saturation;
mod mux;
mod private;
pub mod probe;
mod readahead;
mod reconnect;
pub mod script;
pub mod sftp;
pub mod ssh;
