//! Which job a journal belongs to.

/// The identity of a job for its journal: what is copied where, without flags, so that a rerun with other output or workers
/// continues the same journal. The strings are places as in messages ([`crate::store::Place::words`]), made absolute by the
/// caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub sources: Vec<String>,
    pub target: String,
    /// Service and account of the target where its name does not contain them (an object store's endpoint); else empty.
    pub reached: String,
}

impl Identity {
    /// 16 hex digits. The order of the sources does not matter, nor does naming one twice.
    pub fn id(&self) -> String {
        let mut sources: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        sources.sort_unstable();
        sources.dedup();
        let mut hasher = blake3::Hasher::new();
        // Each part behind its length: no two lists of names have one form.
        let reached = Some(self.reached.as_str()).filter(|reached| !reached.is_empty());
        for part in sources.iter().copied().chain([self.target.as_str()]).chain(reached) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex()[..16].to_string()
    }
}

/// Whether `id` is the form that [`Identity::id`] gives, and so safe as the name of a directory.
pub(super) fn is_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
