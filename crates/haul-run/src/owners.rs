//! Owners that the user names, as the numbers of the place that they are for.

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::spec::{Owner, Principal};
use haul_core::store::{Store, Who};

/// Owner and group as the host of the place numbers them.
///
/// Errors: `Usage` where a name is not known there, `Unsupported` where the place cannot be asked.
pub fn numbers(store: &dyn Store, owner: &Owner) -> Result<(Option<u32>, Option<u32>)> {
    let number = |who, principal: &Option<Principal>| match principal {
        None => Ok(None),
        Some(Principal::Id(id)) => Ok(Some(*id)),
        Some(Principal::Name(name)) => {
            let failed = |kind, why: String| Error::new(kind, "set owner").because(why).hint("give the number");
            let word = if who == Who::User { "user" } else { "group" };
            match store.extensions().owners.id(who, name.as_bytes()) {
                Ok(Some(id)) => Ok(Some(id)),
                Ok(None) => Err(failed(ErrorKind::Usage, format!("the host has no {word} '{}'", show(name.as_bytes())))),
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    Err(failed(e.kind(), format!("the server cannot be asked for the number of {word} '{}'", show(name.as_bytes()))))
                }
                Err(e) => Err(e),
            }
        }
    };
    Ok((number(Who::User, &owner.user)?, number(Who::Group, &owner.group)?))
}
