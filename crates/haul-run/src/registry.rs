//! The backends: one line each.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::{AddressError, Location, Scheme};

use haul_core::place::provider::{Access, Provider};

pub static PROVIDERS: &[&dyn Provider] =
    &[&haul_local::LocalProvider, &haul_ssh::ssh::SshProvider, &haul_s3::S3Provider, &haul_web::WebProvider, &haul_ftp::FtpProvider];

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
/// What is no address of a backend that there is.
pub fn parse(argument: &OsStr, exists: &dyn Fn(&Path) -> bool) -> std::result::Result<Location, AddressError> {
    Location::parse(argument, &schemes(), exists)
}

/// The flags of a transfer spec.
///
/// # Errors
/// `Usage` for flags that no backend has.
pub fn access(record: &BTreeMap<String, serde_json::Value>) -> Result<Access> {
    record.iter().try_fold(Access::default(), |access, (word, record)| {
        let refuse = |why: String| Error::new(ErrorKind::Usage, "read the transfer spec").because(format!("access of {word}: {why}"));
        let provider = PROVIDERS.iter().find(|provider| provider.schemes()[0].word == word.as_str());
        let provider = provider.ok_or_else(|| refuse("this program has no such backend".into()))?;
        let values = provider.recall(record.clone()).map_err(|e| refuse(e.to_string()))?;
        Ok(values.into_iter().fold(access, Access::with))
    })
}

#[cfg(test)]
mod tests;
