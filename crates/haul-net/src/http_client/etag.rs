//! What an ETag says: the MD5 of the content, that of its parts, or nothing but which version it is.

use haul_core::hash::{unhex, xxh128};

/// Parts that an upload can have.
const MOST_PARTS: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ETag {
    /// The MD5 of the content.
    Md5([u8; 16]),
    /// The MD5 of the parts' MD5s, by their number.
    Multipart { md5: [u8; 16], parts: u32 },
    /// It tells versions apart and nothing else.
    Opaque,
}

impl ETag {
    /// Reads an ETag with or without quotes, by form only: AWS writes 32 digits that are no MD5 for objects encrypted with KMS or
    /// customer keys. Content that matches is verified; content that does not is only suspect.
    pub fn parse(text: &str) -> Self {
        // A weak one vouches for the meaning, not for the bytes.
        if text.trim_ascii().starts_with("W/") {
            return ETag::Opaque;
        }
        let bare = bare(text);
        let (digits, parts) = match bare.split_once('-') {
            Some((digits, parts)) => (digits, Some(parts)),
            None => (bare, None),
        };
        if digits.len() != 32 {
            return ETag::Opaque;
        }
        let Some(md5) = unhex(digits).and_then(|bytes| bytes.try_into().ok()) else { return ETag::Opaque };
        match parts {
            None => ETag::Md5(md5),
            Some(parts) => match count(parts) {
                Some(parts) => ETag::Multipart { md5, parts },
                None => ETag::Opaque,
            },
        }
    }
}

/// A number of parts: digits only, 1 to 10,000.
pub fn count(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|parts| (1..=MOST_PARTS).contains(parts))
}

/// The 64 bits of `Stamp::version` for an ETag: equal with quotes, without, and for a weak one, since headers and listings differ
/// in that. 0 only for an empty text.
pub fn version(etag: &str) -> u64 {
    let bare = bare(etag);
    if bare.is_empty() {
        return 0;
    }
    let hash = xxh128(bare.as_bytes());
    u64::try_from(hash & u128::from(u64::MAX)).unwrap_or(1).max(1)
}

fn bare(text: &str) -> &str {
    let text = text.trim_ascii();
    let text = text.strip_prefix("W/").unwrap_or(text);
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_told_apart_by_their_form() {
        let md5 = [0x70, 0xee, 0x17, 0x38, 0xb6, 0xb2, 0x1e, 0x2c, 0x8a, 0x43, 0xf3, 0xa5, 0xab, 0x0e, 0xee, 0x71];
        let digits = "70ee1738b6b21e2c8a43f3a5ab0eee71";
        for text in [digits.to_owned(), format!("\"{digits}\""), format!(" \"{}\" ", digits.to_uppercase())] {
            assert_eq!(ETag::parse(&text), ETag::Md5(md5), "{text}");
        }
        assert_eq!(ETag::parse(&format!("\"{digits}-10000\"")), ETag::Multipart { md5, parts: 10_000 });
        let wrong = ["-0", "-10001", "-", "-1-2", "-+1", "-x", "0", "-4294967297"].map(|end| format!("\"{digits}{end}\""));
        let others = ["", "\"\"", "\"", "abc", "\u{e9}0ee1738b6b21e2c8a43f3a5ab0eee7"].map(str::to_owned);
        for text in wrong.iter().chain(&others).chain(&[format!("W/\"{digits}\"")]) {
            assert_eq!(ETag::parse(text), ETag::Opaque, "{text}");
        }
    }

    #[test]
    fn a_version_is_the_same_however_the_etag_is_written() {
        assert_eq!(version("\"abc\""), version("abc"));
        assert_eq!(version("W/\"abc\""), version("abc"));
        assert_ne!(version("abc"), version("abd"));
        assert_eq!((version(""), version("\"\"")), (0, 0));
        // It is kept in files: it must not change from one release to the next.
        assert_eq!(version("abc"), 0x78af_5f94_892f_3950);
    }
}
