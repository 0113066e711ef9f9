//! SSH hosts: the login, SFTP, and haul itself at both ends (the agent).

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod agent;
pub mod probe;
pub mod script;
pub mod sftp;
pub mod ssh;
