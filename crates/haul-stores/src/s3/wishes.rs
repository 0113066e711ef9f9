//! What objects are to be written with beside their content: class, encryption, owner's rights, headers, tags.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::attributes;
use super::bucket::Head;
use super::checksum::Algorithm;
use super::client::Call;

/// A name of user metadata and its value.
pub type Pair = (Cow<'static, str>, String);

/// What [`super::attributes::write`] gives, as pairs.
pub fn pairs(headers: Vec<(&'static str, String)>) -> Vec<Pair> {
    headers.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// As the flags say. Values go into headers as they are.
#[derive(Clone, Default)]
pub struct Wishes {
    pub storage_class: Option<String>,
    /// `AES256` or `aws:kms`.
    pub encryption: Option<String>,
    pub kms_key: Option<String>,
    /// A key of 32 bytes that the service uses and forgets.
    pub customer_key: Option<Zeroizing<Vec<u8>>>,
    /// A canned list of rights: `private`, `bucket-owner-full-control`...
    pub acl: Option<String>,
    /// The user's own metadata.
    pub metadata: Vec<(String, String)>,
    /// In place of the type that the key's ending suggests.
    pub content_type: Option<String>,
    pub cache_control: Option<String>,
    /// `a=b&c=d`, escaped as in a URL.
    pub tagging: Option<String>,
    /// The one who asks pays for the request.
    pub request_payer: bool,
    /// Objects are read in this version, not the latest.
    pub version: Option<String>,
}

impl std::fmt::Debug for Wishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wishes").field("storage_class", &self.storage_class).field("encryption", &self.encryption).finish_non_exhaustive()
    }
}

/// Headers of an object that a copy keeps: they are not copied with metadata of its own.
const KEPT: [&str; 5] = ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language"];

impl Wishes {
    /// Bytes of metadata that the user's own take, of those that an object may carry.
    pub fn used(&self) -> usize {
        self.metadata.iter().map(|(name, value)| attributes::cost(name, value)).sum()
    }

    /// Whether a copy within the service must be written with something that its source need not have.
    pub fn change_objects(&self) -> bool {
        !self.metadata.is_empty() || self.content_type.is_some() || self.cache_control.is_some()
    }

    /// For requests that read, or that send bytes of what was begun.
    #[must_use]
    pub fn reading<'a>(&self, call: Call<'a>) -> Call<'a> {
        self.customer(call, "")
    }

    /// For requests that make an object.
    #[must_use]
    pub fn writing<'a>(&self, mut call: Call<'a>, key: &[u8], metadata: &[Pair]) -> Call<'a> {
        let content_type = self.content_type.as_deref().unwrap_or_else(|| content_type(key));
        call = call.with("content-type", content_type);
        if let Some(value) = &self.cache_control {
            call = call.with("cache-control", value);
        }
        self.making(call, metadata)
    }

    /// The same for a copy of an object, whose headers it keeps unless others are wished for.
    #[must_use]
    pub fn copying<'a>(&self, mut call: Call<'a>, metadata: &[Pair], like: &Head) -> Call<'a> {
        for name in KEPT {
            let wished = match name {
                "content-type" => self.content_type.as_deref(),
                "cache-control" => self.cache_control.as_deref(),
                _ => None,
            };
            if let Some(value) = wished.or_else(|| like.header(name)) {
                call = call.with(name, value);
            }
        }
        if self.storage_class.is_none()
            && let Some(class) = like.header("x-amz-storage-class")
        {
            call = call.with("x-amz-storage-class", class);
        }
        call = self.customer(call, "copy-source-");
        self.making(call, metadata)
    }

    fn making<'a>(&self, mut call: Call<'a>, metadata: &[Pair]) -> Call<'a> {
        let plain = [
            ("x-amz-storage-class", &self.storage_class),
            ("x-amz-server-side-encryption", &self.encryption),
            ("x-amz-server-side-encryption-aws-kms-key-id", &self.kms_key),
            ("x-amz-acl", &self.acl),
            ("x-amz-tagging", &self.tagging),
        ];
        for (name, value) in plain {
            if let Some(value) = value {
                call = call.with(name, value);
            }
        }
        for (name, value) in &self.metadata {
            call = call.meta(name, value);
        }
        for (name, value) in metadata {
            call = call.meta(name, value);
        }
        self.customer(call, "")
    }

    fn customer<'a>(&self, call: Call<'a>, of: &'static str) -> Call<'a> {
        let Some(key) = &self.customer_key else { return call };
        let names = match of {
            "" => [
                "x-amz-server-side-encryption-customer-algorithm",
                "x-amz-server-side-encryption-customer-key",
                "x-amz-server-side-encryption-customer-key-md5",
            ],
            _ => [
                "x-amz-copy-source-server-side-encryption-customer-algorithm",
                "x-amz-copy-source-server-side-encryption-customer-key",
                "x-amz-copy-source-server-side-encryption-customer-key-md5",
            ],
        };
        let digest = Algorithm::Md5.of(key).base64();
        let text = Zeroizing::new(STANDARD.encode(&key[..]));
        call.with(names[0], "AES256").secret(names[1], &text).with(names[2], digest)
    }
}

/// The media type that a key's ending suggests.
pub fn content_type(key: &[u8]) -> &'static str {
    if key.ends_with(b"/") {
        return "application/x-directory";
    }
    let leaf = key.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let ending = std::str::from_utf8(leaf).ok().and_then(|leaf| leaf.rsplit_once('.')).map(|(_, ending)| ending);
    ending.and_then(|ending| mime_guess::from_ext(ending).first_raw()).unwrap_or("application/octet-stream")
}

#[cfg(test)]
mod tests {
    use super::content_type;

    #[test]
    fn types_are_guessed_by_the_ending() {
        assert_eq!(content_type(b"a/b.JSON"), "application/json");
        assert_eq!(content_type(b"a.b/c"), "application/octet-stream");
        assert_eq!(content_type(b"x.tar.gz"), "application/gzip");
        assert_eq!(content_type(b"dir/"), "application/x-directory");
        assert_eq!(content_type(b"\xff.txt"), "application/octet-stream");
    }
}
