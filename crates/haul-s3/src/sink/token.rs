//! The token of an unfinished upload.

use haul_core::store::Token;

use crate::checksum::Algorithm;

/// Stands behind the algorithm in a token where the service keeps no checksum of the whole.
pub(super) const OF_PARTS: &str = "-parts";

/// What a token says: the checksum that the upload was begun with, the fingerprint of its metadata, and the upload.
pub(super) struct UploadToken<'t> {
    pub(super) algorithm: Algorithm,
    pub(super) whole: bool,
    pub(super) fingerprint: u64,
    pub(super) id: &'t str,
}

impl UploadToken<'_> {
    pub(super) fn of(token: &Token) -> Option<UploadToken<'_>> {
        let mut words = std::str::from_utf8(&token.0).ok()?.splitn(3, ' ');
        let algorithm = words.next()?;
        let (algorithm, whole) = algorithm.strip_suffix(OF_PARTS).map_or((algorithm, true), |algorithm| (algorithm, false));
        let fingerprint = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(UploadToken { algorithm: Algorithm::of_word(algorithm)?, whole, fingerprint, id: words.next()? })
    }
}
