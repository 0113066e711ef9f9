//! What a place can be asked to give files beside content and attributes.

use std::fmt;

/// A set of options of files, as object stores have them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OptionSet(u16);

impl OptionSet {
    pub const NONE: Self = OptionSet(0);
    pub const METADATA: Self = OptionSet(1);
    pub const CONTENT_TYPE: Self = OptionSet(2);
    pub const CACHE_CONTROL: Self = OptionSet(4);
    pub const CONTENT_ENCODING: Self = OptionSet(8);
    pub const CONTENT_DISPOSITION: Self = OptionSet(16);
    pub const CONTENT_LANGUAGE: Self = OptionSet(32);
    pub const EXPIRES: Self = OptionSet(64);
    pub const STORAGE_CLASS: Self = OptionSet(128);
    pub const ENCRYPTION: Self = OptionSet(256);
    pub const CHECKSUM: Self = OptionSet(512);
    pub const TAGS: Self = OptionSet(1024);

    const WORDS: [(OptionSet, &'static str); 11] = [
        (OptionSet::METADATA, "metadata"),
        (OptionSet::CONTENT_TYPE, "content-type"),
        (OptionSet::CACHE_CONTROL, "cache-control"),
        (OptionSet::CONTENT_ENCODING, "content-encoding"),
        (OptionSet::CONTENT_DISPOSITION, "content-disposition"),
        (OptionSet::CONTENT_LANGUAGE, "content-language"),
        (OptionSet::EXPIRES, "expires"),
        (OptionSet::STORAGE_CLASS, "storage-class"),
        (OptionSet::ENCRYPTION, "encryption"),
        (OptionSet::CHECKSUM, "checksum"),
        (OptionSet::TAGS, "tags"),
    ];

    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        OptionSet(self.0 | other.0)
    }

    /// The same set, or none.
    #[must_use]
    pub fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// As the summary and JSON name them.
    pub fn words(self) -> Vec<&'static str> {
        Self::WORDS.iter().filter(|(set, _)| self.0 & set.0 != 0).map(|(_, word)| *word).collect()
    }
}

impl fmt::Debug for OptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_in_one_order() {
        let set = OptionSet::TAGS.with(OptionSet::METADATA).with(OptionSet::EXPIRES.when(false));
        assert_eq!(set.words(), ["metadata", "tags"]);
        let all = OptionSet::WORDS.iter().fold(OptionSet::NONE, |all, (set, _)| all.with(*set));
        assert_eq!((all.words().len(), OptionSet::NONE.words().len()), (OptionSet::WORDS.len(), 0));
    }
}
