//! bench files.

use clap::Args;

use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesFlags {}

/// How many operations on files a place bears: create, stat, read, rename, delete, ...
#[derive(Args)]
#[command(override_usage = "haul bench files [OPTIONS] DIR")]
pub struct FilesArgs {}

impl FilesArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<FilesFlags, Refusal> {
        Ok(FilesFlags {})
    }
}
