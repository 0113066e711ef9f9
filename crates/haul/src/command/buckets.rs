//! `haul mb` and `haul rb`.

use haul_core::error::{Error, Result};
use haul_stores::s3;

use super::lots::{self, Told};
use super::removed::Gone;
use super::scope::Scope;
use crate::open::Argument;

pub fn make(asked: &Argument<'_>) -> Result<()> {
    let name = asked.location.host.as_deref().unwrap_or_default();
    s3::host::client(asked.hosts.access(), asked.location)?.make_bucket(name).map_err(|e| e.at(&asked.path))
}

/// Removes a bucket, and with `force` all that is in it first. Returns how many things in it could not be removed.
pub fn remove(asked: &Argument<'_>, scope: &Scope, force: bool, dry: bool, told: Told<'_>) -> Result<u64> {
    let named = |e: Error| e.at(&asked.path);
    if force {
        let failures = lots::empty(scope, dry, told).map_err(named)?;
        if failures > 0 {
            return Ok(failures);
        }
    }
    if dry {
        // What would go is said only of a bucket that is there.
        scope.bucket().exists().and_then(|there| if there { Ok(()) } else { Err(super::scope::nothing(asked, false)) }).map_err(named)?;
    } else if let Err(e) = scope.bucket().remove_bucket() {
        let full = e.kind() == haul_core::ErrorKind::Exists && !force;
        let e = named(e);
        return Err(if full { e.hint("--force removes all that is in it first: objects, versions, unfinished uploads") } else { e });
    }
    (told.each)(Gone::Bucket);
    Ok(0)
}
