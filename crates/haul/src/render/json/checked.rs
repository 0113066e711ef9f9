//! The event `checked`.

use std::borrow::Cow;

use serde::Serialize;

use crate::render::listing::Place;

use super::text;

/// How a tree compares with its manifest: the last line of `haul check --manifest`.
#[derive(Serialize)]
pub struct Checked<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    manifest: Cow<'a, str>,
    manifest_hex: Option<String>,
    #[serde(flatten)]
    checks: Checks,
}

/// Files by what was found of them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Checks {
    pub same: u64,
    pub missing: u64,
    pub differing: u64,
    pub extra: u64,
    pub failed: u64,
}

impl<'a> Checked<'a> {
    pub fn of(place: &'a [u8], manifest: &'a [u8], checks: Checks) -> Self {
        let (manifest, manifest_hex) = text(manifest);
        Checked { place: Place::of(place), manifest, manifest_hex, checks }
    }
}
