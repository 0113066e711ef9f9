//! Arguments that are in object stores.

use haul_core::error::{Error, Result};
use haul_core::store::Flow;
use haul_s3::address::Pattern;
use haul_s3::admin;
pub use haul_s3::admin::{Match, Scope, What};
use haul_s3::inventory::Line;
use haul_s3::{BucketHost, Flags};

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
    let key = key_of(asked.location);
    if asked.hosts.access().get::<Flags>().raw {
        return Scope::literal(bucket, &asked.path, key).map(Some);
    }
    let scope = Scope::new(bucket.clone(), &asked.path, key.clone())?;
    // An object of just this name is what is meant.
    let first = || bucket.first(&key).map_err(|e| e.at(&asked.path));
    let is_key = matches!(scope.what, What::Like(_)) && !key.ends_with(b"/") && first()?.is_some_and(|first| first.key == key);
    if is_key { Scope::literal(bucket, &asked.path, key).map(Some) } else { Ok(Some(scope)) }
}

/// What is removed without `-r`: with `--raw` just the object of the key, which may end in a slash.
pub fn of_removed(asked: &Argument<'_>, recursive: bool) -> Result<Option<Scope>> {
    let is_raw = || asked.hosts.access().get::<Flags>().raw;
    if recursive || !asked.location.scheme.keys || !asked.location.trailing_slash || asked.location.path.is_empty() || !is_raw() {
        return of(asked);
    }
    let bucket = BucketHost::of(&*asked.hosts.reach(asked.location)?)?.bucket().clone();
    Scope::exact(bucket, &asked.path, key_of(asked.location)).map(Some)
}

/// Whether an address is a pattern of keys, unless there is an object of just this name. Sends nothing.
pub fn may_be_pattern(asked: &Argument<'_>) -> bool {
    let is_raw = || asked.hosts.access().get::<Flags>().raw;
    asked.location.scheme.keys && !is_raw() && !matches!(Pattern::parse(&key_of(asked.location)), Ok(None))
}

/// Calls `each` with the place itself, or with the objects that it matches, if it is a pattern.
pub fn each_object(asked: &Argument<'_>, each: &mut dyn FnMut(&Argument<'_>) -> Result<()>) -> Result<()> {
    if !may_be_pattern(asked) {
        return each(asked);
    }
    let Some(scope) = of(asked)? else { return each(asked) };
    let What::Like(pattern) = &scope.what else { return each(asked) };
    let (mut any, mut done) = (false, Ok(()));
    pattern.walk(scope.bucket(), false, &mut |found| {
        let Match::Line(Line::Object(object)) = found else { return Flow::Go };
        any = true;
        let trailing_slash = object.key.ends_with(b"/");
        let path = object.key.strip_suffix(b"/").unwrap_or(&object.key).to_vec();
        let location = Location { path, trailing_slash, ..asked.location.clone() };
        done = each(&Argument::new(&location, asked.hosts));
        if done.is_ok() { Flow::Go } else { Flow::Stop }
    })?;
    done?;
    if any { Ok(()) } else { Err(scope.nothing()) }
}

/// Nothing was found under an address.
pub fn nothing(asked: &Argument<'_>, wild: bool) -> Error {
    admin::nothing(&asked.path, wild)
}
