//! What stands behind the program: the registry of backends, and the places that addresses name.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod registry;
pub mod stream;
