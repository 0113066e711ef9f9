//! The places that haul moves data between, one folder a backend.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(feature = "ftp")]
use haul_core::lock;

#[cfg(feature = "ssh")]
pub mod agent;
#[cfg(feature = "ssh")]
mod announced;
#[cfg(feature = "ssh")]
mod bounded;
#[cfg(feature = "ssh")]
mod child;
#[cfg(feature = "ftp")]
pub mod ftp;
#[cfg(feature = "ssh")]
mod fullness;
#[cfg(feature = "s3")]
pub mod http_client;
#[cfg(any(feature = "ssh", feature = "ftp"))]
mod items;
#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "ssh")]
mod mux;
#[cfg(feature = "ssh")]
/// Users and groups of this machine.
mod names;

#[cfg(any(feature = "web", feature = "ftp"))]
mod netrc;
#[cfg(feature = "ssh")]
mod private;
#[cfg(feature = "ssh")]
pub mod probe;
pub mod provider;
#[cfg(feature = "ssh")]
mod reconnect;
pub mod registry;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "ssh")]
pub mod script;
#[cfg(feature = "ssh")]
pub mod sftp;
#[cfg(feature = "ssh")]
pub mod ssh;
mod staging;
pub mod stream;
#[cfg(any(feature = "ssh", feature = "ftp"))]
mod tcp;
#[cfg(any(feature = "s3", feature = "ftp"))]
mod terminal;
#[cfg(feature = "web")]
pub mod web;

pub use staging::{is_staging, staging_leaf};
