//! The backends: one line each.

use std::ffi::OsStr;
use std::path::Path;

use haul_core::place::{AddressError, Location, Scheme};

use crate::provider::Provider;

pub static PROVIDERS: &[&dyn Provider] = &[
    &crate::local::LocalProvider,
    #[cfg(feature = "ssh")]
    &crate::ssh::SshProvider,
    #[cfg(feature = "s3")]
    &crate::s3::S3Provider,
];

/// The schemes that this program can open.
pub fn schemes() -> Vec<Scheme> {
    PROVIDERS.iter().flat_map(|provider| provider.schemes()).copied().collect()
}

/// The backend of a scheme; `None` for standard input and output.
pub fn provider(scheme: Scheme) -> Option<&'static dyn Provider> {
    PROVIDERS.iter().find(|provider| provider.schemes().contains(&scheme)).copied()
}

/// Reads an address; see [`Location::parse`].
///
/// # Errors
///
/// What is no address of a backend that there is.
pub fn parse(argument: &OsStr, exists: &dyn Fn(&Path) -> bool) -> Result<Location, AddressError> {
    Location::parse(argument, &schemes(), exists)
}

#[cfg(test)]
mod tests;
