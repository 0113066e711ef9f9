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

pub type Pair = (Cow<'static, str>, String);

/// The headers of [`super::attributes::write`] as pairs.
pub fn pairs(headers: Vec<(&'static str, String)>) -> Vec<Pair> {
    headers.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// As the flags say. Values go into headers as they are.
#[derive(Clone, Default)]
pub struct PutOptions {
    /// The values of the headers in `HEADERS`; a content type in place of the one guessed from the file extension.
    pub headers: [Option<String>; HEADERS.len()],
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
    pub metadata: Vec<(String, String)>,
    /// `a=b&c=d`, escaped as in a URL.
    pub tagging: Option<String>,
    pub request_payer: bool,
    /// Read this version, not the latest.
    pub version: Option<String>,
    /// Do not verify by ETags: those of some services look like MD5s and are not.
    pub no_check_etag: bool,
}

impl std::fmt::Debug for PutOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutOptions").field("headers", &self.headers).field("encryption", &self.encryption).finish_non_exhaustive()
    }
}

/// Headers that an object keeps, and what an option for one is called. A copy with new metadata loses the first [`KEPT`] of its source;
/// the others a copy has only if they are sent. So are ACLs, but no answer has them: a copy gets the default one.
pub const HEADERS: [(&str, OptionSet); 8] = [
    ("content-type", OptionSet::CONTENT_TYPE),
    ("cache-control", OptionSet::CACHE_CONTROL),
    ("content-disposition", OptionSet::CONTENT_DISPOSITION),
    ("content-encoding", OptionSet::CONTENT_ENCODING),
    ("content-language", OptionSet::CONTENT_LANGUAGE),
    ("expires", OptionSet::EXPIRES),
    (CLASS, OptionSet::STORAGE_CLASS),
    ("x-amz-website-redirect-location", OptionSet::NONE),
];
const KEPT: usize = 6;
const CLASS: &str = "x-amz-storage-class";

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
    pub same_bucket: bool,
    /// The version of the source that is copied; `None` for the latest.
    pub version: Option<&'a str>,
    /// Headers that grant rights, as those of the source.
    pub grants: &'a [(&'static str, String)],
}

impl<'a> CopyTemplate<'a> {
    /// In the bucket of its source, the same but for what the options say.
    pub fn of(head: &'a Head) -> Self {
        CopyTemplate { head, attributes: None, same_bucket: true, version: None, grants: &[] }
    }

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
        let own = [&self.encryption, &self.kms_key, &self.acl, &self.tagging];
        let text = format!("{own:?} {:?} {:?} {} {metadata:?}{checksum}", self.headers, self.metadata, self.customer_key.is_some());
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
        !self.metadata.is_empty() || self.headers[..KEPT].iter().any(Option::is_some)
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
            } else if let Some(at) = HEADERS.iter().position(|(known, _)| known == name) {
                options.headers[at].get_or_insert_with(|| value.clone());
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

    /// Whether anything is asked for that an object can be compared with.
    pub fn wishes(&self) -> bool {
        let other = [&self.encryption, &self.tagging];
        self.change_objects() || self.checksum.is_some() || self.headers[KEPT..].iter().chain(other).any(Option::is_some)
    }

    /// Whether a request for an object has headers of these options.
    pub(super) fn needs_headers(&self) -> bool {
        self.wishes() || self.acl.is_some() || self.copies_acl || self.customer_key.is_some()
    }

    /// What an object lacks of it, but for tags.
    pub(super) fn lacking(&self, head: &Head) -> OptionSet {
        let is = |name: &str, wanted: &Option<String>| {
            let usual = if name == CLASS { "STANDARD" } else { "" };
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
        let headers = HEADERS.into_iter().zip(&self.headers).map(|((name, option), wanted)| (is(name, wanted), option));
        [
            (self.metadata.iter().all(has), OptionSet::METADATA),
            (is("x-amz-server-side-encryption", &self.encryption) && keyed, OptionSet::ENCRYPTION),
            (self.checksum.is_none_or(checked), OptionSet::CHECKSUM),
        ]
        .into_iter()
        .chain(headers)
        .fold(OptionSet::NONE, |lacking, (has, option)| lacking.with(option.when(!has)))
    }

    /// For requests that read, or that send parts.
    #[must_use]
    pub fn reading<'a>(&self, call: Call<'a>) -> Call<'a> {
        self.customer(call, "")
    }

    #[must_use]
    pub fn writing<'a>(&self, call: Call<'a>, key: &[u8], metadata: &[Pair]) -> Call<'a> {
        self.making(call.with(HEADERS[0].0, content_type(key)), 0, metadata)
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
        HEADERS[if anew { 0 } else { KEPT }..].iter().for_each(|header| keep(header.0));
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
            return self.making(call, KEPT, &[]);
        }
        for (name, value) in like.head.raw_metadata() {
            if like.attributes.is_none() || !attributes::NAMES.contains(&name) {
                call = call.meta(name, value);
            }
        }
        self.making(call, 0, like.attributes.unwrap_or_default())
    }

    /// With the customer's key for the source of a copy.
    #[must_use]
    pub fn of_source<'a>(&self, call: Call<'a>) -> Call<'a> {
        self.customer(call, "copy-source-")
    }

    /// `from`: the first of the headers that are sent.
    fn making<'a>(&self, mut call: Call<'a>, from: usize, metadata: &[Pair]) -> Call<'a> {
        let other = [
            ("x-amz-server-side-encryption", &self.encryption),
            ("x-amz-server-side-encryption-aws-kms-key-id", &self.kms_key),
            (ACL, &self.acl),
            ("x-amz-tagging", &self.tagging),
        ];
        for (name, value) in HEADERS.into_iter().map(|(name, _)| name).zip(&self.headers).skip(from).chain(other) {
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
