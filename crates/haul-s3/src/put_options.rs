//! Options of objects that are written: storage class, encryption, ACL, headers, tags.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::bucket::Head;
use super::call::Call;
use super::checksum::Algorithm;
use super::{attributes, rights};
use haul_core::entry::Headers;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::option_set::OptionSet;

/// A name of user metadata and its value.
pub type Pair = (Cow<'static, str>, String);

/// The headers of [`super::attributes::write`] as pairs.
pub fn pairs(headers: Vec<(&'static str, String)>) -> Vec<Pair> {
    headers.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// As the flags say. Values go into headers as they are.
#[derive(Clone, Default)]
pub struct PutOptions {
    pub storage_class: Option<String>,
    /// `AES256` or `aws:kms`.
    pub encryption: Option<String>,
    pub kms_key: Option<String>,
    /// A key of 32 bytes that the service uses and forgets.
    pub customer_key: Option<Zeroizing<Vec<u8>>>,
    /// A canned list of rights: `private`, `bucket-owner-full-control`...
    pub acl: Option<String>,
    /// Copies get the grants of their source.
    pub copies_acl: bool,
    /// The service stores this checksum; `None` for the best that it takes.
    pub checksum: Option<Algorithm>,
    /// The user's own metadata.
    pub metadata: Vec<(String, String)>,
    /// In place of the type guessed from the file extension.
    pub content_type: Option<String>,
    pub cache_control: Option<String>,
    pub content_encoding: Option<String>,
    pub content_disposition: Option<String>,
    pub content_language: Option<String>,
    pub expires: Option<String>,
    /// Where a request for the object as a web page is sent on to: only of a copy.
    pub redirect: Option<String>,
    /// `a=b&c=d`, escaped as in a URL.
    pub tagging: Option<String>,
    /// The requester pays.
    pub request_payer: bool,
    /// Read this version, not the latest.
    pub version: Option<String>,
    /// Do not verify by ETags: those of some services look like MD5s and are not.
    pub no_check_etag: bool,
}

impl std::fmt::Debug for PutOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutOptions")
            .field("storage_class", &self.storage_class)
            .field("encryption", &self.encryption)
            .finish_non_exhaustive()
    }
}

/// Headers that are copied together with metadata: a copy with new metadata loses those of its source.
pub(super) const KEPT: [&str; 6] =
    ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires"];

/// Headers that a copy has only if they are sent. So are ACLs, but no answer has them: a copy gets the default one.
pub(super) const NEVER_COPIED: [&str; 2] = ["x-amz-storage-class", "x-amz-website-redirect-location"];

/// The canned ACL of a copy.
pub(super) const ACL: &str = "x-amz-acl";

/// Only for copies in the same bucket: another one has rules and keys of its own, and rejects what does not fit.
const ENCRYPTION: [&str; 3] =
    ["x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id", "x-amz-server-side-encryption-bucket-key-enabled"];
const HOLD: &str = "x-amz-object-lock-legal-hold";
const RETENTION: [&str; 2] = ["x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"];

/// What a copy within the service takes from its source.
#[derive(Clone, Copy, Debug)]
pub struct CopyTemplate<'a> {
    pub head: &'a Head,
    /// haul's attributes, in place of those of the source; `None` keeps those.
    pub attributes: Option<&'a [Pair]>,
    /// The copy is in the bucket of its source.
    pub same_bucket: bool,
    /// The version of the source that is copied; `None` for the latest.
    pub version: Option<&'a str>,
    /// Headers that grant rights, as those of the source.
    pub grants: &'a [(&'static str, String)],
}

impl CopyTemplate<'_> {
    /// Whether any metadata change.
    pub fn changes(&self, options: &PutOptions) -> bool {
        let differs = |attributes: &[Pair]| {
            let known = self.head.metadata();
            let had = known.iter().filter(|(name, _)| attributes::NAMES.contains(&&**name)).count();
            had != attributes.len() || attributes.iter().any(|pair| !known.contains(pair))
        };
        options.change_objects() || self.attributes.is_some_and(differs)
    }

    /// Bytes of the copy's metadata without haul's attributes.
    pub fn used(&self, options: &PutOptions) -> usize {
        let replaced = |name: &str| options.metadata.iter().any(|(new, _)| new.eq_ignore_ascii_case(name));
        let kept = self.head.foreign().filter(|(name, _)| !replaced(name));
        options.used() + kept.map(|(name, value)| attributes::cost_of(name.len(), value.len())).sum::<usize>()
    }

    /// # Errors
    /// The metadata cannot be sent again without loss.
    pub fn check(&self, op: &'static str) -> Result<()> {
        let lost = self.head.header("x-amz-missing-meta").and_then(|count| count.trim().parse::<u32>().ok()).unwrap_or(0);
        if lost == 0 {
            return Ok(());
        }
        let e = Error::new(ErrorKind::Other, op);
        Err(e.because(format!("{lost} of the object's metadata cannot be sent by HTTP and would be lost")))
    }

    /// Retention in the past cannot be requested.
    fn is_retained(&self) -> bool {
        let until = self.head.header(RETENTION[1]).and_then(haul_net::http_client::time::iso);
        match (until, self.head.answered) {
            (Some(until), Some(now)) => until.secs > now.secs,
            (until, _) => until.is_some(),
        }
    }
}

impl PutOptions {
    /// Bytes of the user's own metadata, of those that an object may carry.
    pub fn used(&self) -> usize {
        self.metadata.iter().map(|(name, value)| attributes::cost(name, value)).sum()
    }

    /// A fingerprint of options and metadata: an upload keeps those that it was begun with. The customer's key is not in it, only
    /// that there is one.
    pub fn fingerprint(&self, metadata: &[Pair]) -> u64 {
        let checksum = self.checksum.map_or_else(String::new, |algorithm| format!(" {}", algorithm.word()));
        let own = [&self.storage_class, &self.encryption, &self.kms_key, &self.acl, &self.content_type, &self.cache_control, &self.tagging];
        let text = format!("{own:?} {:?} {:?} {} {metadata:?}{checksum}", self.plain_headers(), self.metadata, self.customer_key.is_some());
        (haul_core::hash::xxh128(text.as_bytes()) & u128::from(u64::MAX)) as u64
    }

    /// # Errors
    /// Grants are to be copied, and the content does not come from an object: see [`PutOptions::like`].
    pub(super) fn can_copy_acl(&self, op: &'static str) -> Result<()> {
        if !self.copies_acl {
            return Ok(());
        }
        let e = Error::new(ErrorKind::Usage, op).because("--acl copy is for copies of objects, and the source has no ACL");
        Err(e.hint("name an ACL: --acl private, --acl bucket-owner-full-control"))
    }

    /// Whether a copy within the service needs metadata that its source need not have.
    pub fn change_objects(&self) -> bool {
        !self.metadata.is_empty() || self.content_type.is_some() || self.plain_headers().iter().any(|(_, value)| value.is_some())
    }

    /// With the headers of an object that is copied, but for those that were asked for.
    pub fn like(&self, from: &Headers) -> PutOptions {
        let mut options = self.clone();
        for (name, value) in &from.headers {
            if name == ACL {
                if options.copies_acl {
                    options.copies_acl = false;
                    options.acl = Some(value.clone()).filter(|acl| acl != rights::PRIVATE);
                }
            } else if let Some(field) = options.header(name) {
                field.get_or_insert_with(|| value.clone());
            } else if let Some(name) = name.strip_prefix("x-amz-meta-")
                && !options.metadata.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
            {
                options.metadata.push((name.to_string(), value.clone()));
            }
        }
        if options.tagging.is_none() {
            options.tagging.clone_from(&from.tags);
        }
        options
    }

    /// The value that was asked for of a header that copies keep.
    fn header(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "content-type" => &mut self.content_type,
            "cache-control" => &mut self.cache_control,
            "content-disposition" => &mut self.content_disposition,
            "content-encoding" => &mut self.content_encoding,
            "content-language" => &mut self.content_language,
            "expires" => &mut self.expires,
            "x-amz-storage-class" => &mut self.storage_class,
            "x-amz-website-redirect-location" => &mut self.redirect,
            _ => return None,
        })
    }

    /// Headers that were asked for beside the content type.
    fn plain_headers(&self) -> [(&'static str, &Option<String>); 5] {
        [
            ("cache-control", &self.cache_control),
            ("content-disposition", &self.content_disposition),
            ("content-encoding", &self.content_encoding),
            ("content-language", &self.content_language),
            ("expires", &self.expires),
        ]
    }

    /// Whether anything is asked for that an object can be compared with.
    pub fn wishes(&self) -> bool {
        self.change_objects()
            || self.storage_class.is_some()
            || self.encryption.is_some()
            || self.tagging.is_some()
            || self.checksum.is_some()
    }

    /// Whether a request for an object has headers of these options.
    pub(super) fn needs_headers(&self) -> bool {
        self.wishes() || self.acl.is_some() || self.copies_acl || self.customer_key.is_some()
    }

    /// What an object lacks of it, but for tags.
    pub(super) fn lacking(&self, head: &Head) -> OptionSet {
        let is = |name: &str, wanted: &Option<String>, usual: &str| {
            wanted.as_ref().is_none_or(|wanted| head.header(name).unwrap_or(usual) == wanted)
        };
        let metadata = head.metadata();
        let has = |(name, value): &(String, String)| metadata.iter().any(|(own, had)| own.eq_ignore_ascii_case(name) && had == value);
        // A key is named in several ways, of which an answer has one.
        let keyed = self.kms_key.as_ref().is_none_or(|key| {
            head.header("x-amz-server-side-encryption-aws-kms-key-id")
                .is_some_and(|own| own == key || own.rsplit(['/', ':']).next() == key.rsplit(['/', ':']).next())
        });
        let checked = |wanted| head.checksums.stored.iter().any(|stored| !stored.etag && stored.algorithm() == wanted);
        [
            (self.metadata.iter().all(has), OptionSet::METADATA),
            (is("content-type", &self.content_type, ""), OptionSet::CONTENT_TYPE),
            (is("cache-control", &self.cache_control, ""), OptionSet::CACHE_CONTROL),
            (is("content-encoding", &self.content_encoding, ""), OptionSet::CONTENT_ENCODING),
            (is("content-disposition", &self.content_disposition, ""), OptionSet::CONTENT_DISPOSITION),
            (is("content-language", &self.content_language, ""), OptionSet::CONTENT_LANGUAGE),
            (is("expires", &self.expires, ""), OptionSet::EXPIRES),
            (is("x-amz-storage-class", &self.storage_class, "STANDARD"), OptionSet::STORAGE_CLASS),
            (is("x-amz-server-side-encryption", &self.encryption, "") && keyed, OptionSet::ENCRYPTION),
            (self.checksum.is_none_or(checked), OptionSet::CHECKSUM),
        ]
        .into_iter()
        .fold(OptionSet::NONE, |lacking, (has, option)| lacking.with(option.when(!has)))
    }

    /// For requests that read, or that send parts.
    #[must_use]
    pub fn reading<'a>(&self, call: Call<'a>) -> Call<'a> {
        self.customer(call, "")
    }

    /// For requests that create an object.
    #[must_use]
    pub fn writing<'a>(&self, mut call: Call<'a>, key: &[u8], metadata: &[Pair]) -> Call<'a> {
        let content_type = self.content_type.as_deref().unwrap_or_else(|| content_type(key));
        call = call.with("content-type", content_type);
        for (name, value) in self.plain_headers() {
            if let Some(value) = value {
                call = call.with(name, value);
            }
        }
        self.making(call, metadata)
    }

    /// For requests that copy an object. `anew`: metadata are sent, not copied.
    #[must_use]
    pub fn copying<'a>(&self, mut call: Call<'a>, like: &CopyTemplate<'_>, anew: bool) -> Call<'a> {
        if let Some(algorithm) = self.checksum {
            call = call.with("x-amz-checksum-algorithm", algorithm.word());
        }
        for (name, value) in like.grants {
            call = call.with(name, value);
        }
        let mut keep = |name: &'static str| {
            if let Some(value) = like.head.headers.get(name) {
                call.headers.insert(name, value.clone());
            }
        };
        NEVER_COPIED.into_iter().for_each(&mut keep);
        if anew {
            KEPT.into_iter().for_each(&mut keep);
        }
        if like.same_bucket {
            if self.encryption.is_none() && self.kms_key.is_none() && self.customer_key.is_none() {
                ENCRYPTION.into_iter().for_each(&mut keep);
            }
            keep(HOLD);
            if like.is_retained() {
                RETENTION.into_iter().for_each(&mut keep);
            }
        }
        if !anew {
            return self.making(call, &[]);
        }
        for (name, value) in [("content-type", &self.content_type)].into_iter().chain(self.plain_headers()) {
            if let Some(value) = value {
                call = call.with(name, value);
            }
        }
        for (name, value) in like.head.raw_metadata() {
            if like.attributes.is_none() || !attributes::NAMES.contains(&name) {
                call = call.meta(name, value);
            }
        }
        self.making(call, like.attributes.unwrap_or_default())
    }

    /// With the customer's key for the source of a copy.
    #[must_use]
    pub fn of_source<'a>(&self, call: Call<'a>) -> Call<'a> {
        self.customer(call, "copy-source-")
    }

    fn making<'a>(&self, mut call: Call<'a>, metadata: &[Pair]) -> Call<'a> {
        let plain = [
            ("x-amz-storage-class", &self.storage_class),
            ("x-amz-server-side-encryption", &self.encryption),
            ("x-amz-server-side-encryption-aws-kms-key-id", &self.kms_key),
            (ACL, &self.acl),
            ("x-amz-tagging", &self.tagging),
            ("x-amz-website-redirect-location", &self.redirect),
        ];
        for (name, value) in plain {
            if let Some(value) = value {
                call = call.with(name, value);
            }
        }
        for (name, value) in &self.metadata {
            call = call.meta(name, value.as_bytes());
        }
        for (name, value) in metadata {
            call = call.meta(name, value.as_bytes());
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

/// The media type by the file extension of a key.
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
