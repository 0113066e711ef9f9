//! Arguments that are in object stores.

use haul_core::error::{Error, Result};
use haul_stores::s3::BucketHost;
use haul_stores::s3::admin;
pub use haul_stores::s3::admin::{Match, Scope, What};

use crate::location::Location;
use crate::open::Argument;

/// The key that an address names, its slash at the end included.
pub fn key_of(location: &Location) -> Vec<u8> {
    let mut key = location.path.clone();
    if location.trailing_slash {
        key.push(b'/');
    }
    key
}

/// `None` for what is in no object store.
pub fn of(asked: &Argument<'_>) -> Result<Option<Scope>> {
    if !asked.location.scheme.keys {
        return Ok(None);
    }
    let bucket = BucketHost::of(&*asked.hosts.reach(asked.location)?)?.bucket().clone();
    Scope::new(bucket, &asked.path, key_of(asked.location)).map(Some)
}

/// Nothing was found under an address.
pub fn nothing(asked: &Argument<'_>, wild: bool) -> Error {
    admin::nothing(&asked.path, wild)
}
