//! The checksums that an object has by the headers of an answer.
//!
//! An object sent in parts has one of two kinds of checksum. The *whole* kind is that of its content, wherever it
//! was cut: only CRCs can have it, since their values combine. The *composite* kind is the checksum of the parts'
//! checksums: a check needs the sizes of the parts. A multipart ETag is the composite MD5.

#[cfg(test)]
mod tests;

pub use haul_net::http_client::digest::{Algorithm, Value, combine, composite};
use haul_net::http_client::etag::count;
pub use haul_net::http_client::etag::{ETag, version};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Whole,
    /// Of the checksums of so many parts; 0 if their number is not said.
    Composite(u32),
}

/// A checksum that the service keeps with the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredChecksum {
    pub value: Value,
    pub kind: Kind,
    /// It is the ETag: where the content differs, it may be that the ETag is no MD5. Only a stored checksum convicts.
    pub etag: bool,
}

impl StoredChecksum {
    /// Reads a value as headers and documents have it: base64, with `-N` for the composite of N parts.
    /// `checksum_type` is `FULL_OBJECT`, `COMPOSITE` or empty. `None` for what is no such value.
    pub fn parse(algorithm: Algorithm, text: &str, checksum_type: &str) -> Option<Self> {
        let text = text.trim_ascii();
        let (value, parts) = match text.split_once('-') {
            Some((value, parts)) => (value, count(parts)?),
            None => (text, 0),
        };
        let whole = parts == 0 && !checksum_type.trim_ascii().eq_ignore_ascii_case("COMPOSITE");
        let kind = if whole { Kind::Whole } else { Kind::Composite(parts) };
        Some(StoredChecksum { value: Value::parse_base64(algorithm, value)?, kind, etag: false })
    }

    pub fn text(&self) -> String {
        match self.kind {
            Kind::Whole | Kind::Composite(0) => self.value.base64(),
            Kind::Composite(parts) => format!("{}-{parts}", self.value.base64()),
        }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.value.algorithm()
    }
}

/// All that an answer says about the content of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChecksums {
    /// [`ETag::Opaque`] also where a header says that the ETag is no MD5 in spite of its form.
    pub etag: ETag,
    /// The best first: of the whole before composite ones, what is cheap to compute before what is not, and what
    /// comes of the ETag last of its kind.
    pub stored: Vec<StoredChecksum>,
}

/// Reads the headers of an answer to HEAD, GET or PUT, whatever the case of their names. The checksums of an
/// answer for a range are left out: some services send that of the object, others that of the part.
pub fn checksums<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> ObjectChecksums {
    let (mut etag, mut checksum_type) = ("", "");
    let (mut encrypted, mut range) = (false, false);
    let mut found: Vec<(Algorithm, &str)> = Vec::new();
    for (name, value) in headers {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if let Some(algorithm) = Algorithm::of_header(name) {
            found.push((algorithm, value));
        } else if is("etag") {
            etag = value;
        } else if is("x-amz-checksum-type") {
            checksum_type = value;
        } else if is("content-range") {
            range = true;
        } else if is("x-goog-hash") {
            found.extend(value.split(',').filter_map(google));
        } else if is("x-amz-server-side-encryption") {
            encrypted |= value.trim_ascii().to_ascii_lowercase().starts_with("aws:kms");
        } else if is("x-amz-server-side-encryption-customer-algorithm") {
            encrypted = true;
        }
    }
    let etag = if encrypted { ETag::Opaque } else { ETag::parse(etag) };
    let mut stored = Vec::new();
    if !range {
        stored.extend(found.into_iter().filter_map(|(algorithm, text)| StoredChecksum::parse(algorithm, text, checksum_type)));
    }
    let (md5, kind) = match etag {
        ETag::Md5(md5) => (Some(md5), Kind::Whole),
        ETag::Multipart { md5, parts } => (Some(md5), Kind::Composite(parts)),
        ETag::Opaque => (None, Kind::Whole),
    };
    if let Some(value) = md5.and_then(|md5| Value::parse(Algorithm::Md5, &md5)) {
        stored.push(StoredChecksum { value, kind, etag: true });
    }
    stored.sort_by_key(|stored| (stored.kind != Kind::Whole, stored.etag, stored.algorithm()));
    ObjectChecksums { etag, stored }
}

/// Google's form: `crc32c=n03x6A==` or `md5=Ojk9c3dhfxgoKVVHYwFbHQ==`.
fn google(text: &str) -> Option<(Algorithm, &str)> {
    let (name, value) = text.trim_ascii().split_once('=')?;
    match name {
        "crc32c" => Some((Algorithm::Crc32c, value)),
        "md5" => Some((Algorithm::Md5, value)),
        _ => None,
    }
}
