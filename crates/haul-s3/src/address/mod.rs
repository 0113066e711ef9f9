//! Where a bucket is: endpoint, path or virtual-host style, names of buckets, keys in URLs.

mod endpoint;
mod names;
mod pattern;

#[cfg(test)]
mod tests;

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

pub use endpoint::{Endpoint, Style, Variant};
pub use names::{is_beside, name_beside, name_of_part, part_of_name, path_beside, path_of_key};
pub use pattern::Pattern;

/// Bytes that a key can have.
pub const LONGEST_KEY: usize = 1024;

/// The address of a request for this bucket and key, encoded as the signature wants it. Without a bucket it is the service,
/// without a key the bucket. `Err` says why there can be no such key or bucket.
pub fn target(endpoint: &Endpoint, style: Style, bucket: Option<&str>, key: &[u8], query: &[(&str, &str)]) -> Result<Uri, String> {
    check_key(key)?;
    let mut host = endpoint.host.clone();
    let mut path = endpoint.prefix.clone();
    if let Some(bucket) = bucket {
        check_bucket(bucket)?;
        match style {
            Style::Virtual => host.insert_str(0, &format!("{bucket}.")),
            Style::Path => {
                path.push('/');
                encode(&mut path, bucket.as_bytes(), false);
            }
        }
        // A bucket alone is `/bucket`; in virtual-host style it is `/`.
        if style == Style::Virtual || !key.is_empty() {
            path.push('/');
        }
        encode(&mut path, key, true);
    } else if !key.is_empty() {
        return Err("a key needs a bucket".into());
    }
    if path.is_empty() {
        path.push('/');
    }
    let port = endpoint.port.map(|port| format!(":{port}")).unwrap_or_default();
    let query = self::query(query);
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{}://{host}{port}{path}{mark}{query}", endpoint.scheme()).parse().map_err(|_| "makes no address".into())
}

/// Names and values, encoded and sorted as the signature wants them: `uploads` alone is `uploads=`.
pub fn query(items: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        let mut out = String::with_capacity(text.len());
        encode(&mut out, text.as_bytes(), false);
        out
    };
    let mut items: Vec<(String, String)> = items.iter().map(|(name, value)| (encoded(name), encoded(value))).collect();
    items.sort();
    items.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// The value of `x-amz-copy-source`. An empty version is the latest.
pub fn copy_source(bucket: &str, key: &[u8], version: &str) -> String {
    let mut source = String::from("/");
    encode(&mut source, bucket.as_bytes(), false);
    source.push('/');
    encode(&mut source, key, true);
    if !version.is_empty() {
        source.push_str("?versionId=");
        encode(&mut source, version.as_bytes(), false);
    }
    source
}

/// `a=b&c=d`: tags as a header has them.
pub fn tagging(tags: &[(String, String)]) -> String {
    let mut text = String::new();
    for (key, value) in tags {
        if !text.is_empty() {
            text.push('&');
        }
        encode(&mut text, key.as_bytes(), false);
        text.push('=');
        encode(&mut text, value.as_bytes(), false);
    }
    text
}

/// Percent-encodes all but RFC 3986's unreserved characters, and slashes where they are kept: the service's canonical form, so
/// that the signed text is sent.
pub(super) fn encode(out: &mut String, bytes: &[u8], slashes: bool) {
    const ALL: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    const PATH: AsciiSet = ALL.remove(b'/');
    out.extend(percent_encode(bytes, if slashes { &PATH } else { &ALL }));
}

/// The reverse; `None` where a percent sign is followed by something else than two hexadecimal digits.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let escapes = |behind: &[u8]| behind.len() >= 2 && behind[..2].iter().all(u8::is_ascii_hexdigit);
    text.bytes()
        .enumerate()
        .filter(|(_, byte)| *byte == b'%')
        .all(|(at, _)| escapes(&text.as_bytes()[at + 1..]))
        .then(|| percent_decode_str(text).collect())
}

/// Why these bytes can be no key: keys are UTF-8 of at most 1,024 bytes. An empty one names the bucket.
pub fn check_key(key: &[u8]) -> Result<(), String> {
    if key.len() > LONGEST_KEY {
        return Err(format!("a key has at most {LONGEST_KEY} bytes, and this has {}", key.len()));
    }
    match std::str::from_utf8(key) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("a key is UTF-8, and this is not from byte {} on", error.valid_up_to())),
    }
}

/// Why this cannot name an existing bucket. Looser than [`check_new_bucket`]: old ones and other services' may have capital
/// letters, underscores and up to 255 characters. Nothing that would end a host or a path component passes.
pub fn check_bucket(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the bucket has no name".into());
    }
    if name.len() > 255 {
        return Err(format!("a bucket's name has at most 255 characters, and this has {}", name.len()));
    }
    if name.ends_with("--x-s3") {
        let why =
            "it is a directory bucket of S3 Express One Zone, which haul does not speak: use the AWS CLI, or a general purpose bucket";
        return Err(why.into());
    }
    if name.ends_with(".mrap") || (name.starts_with("arn:") && name.contains(":s3::") && name.contains(":accesspoint")) {
        let why = "it is a multi-Region access point, which needs signatures of version 4A: name one of its buckets";
        return Err(why.into());
    }
    if name.starts_with("arn:") {
        return Err("an ARN is no bucket; name the access point by its alias".into());
    }
    if let Some(c) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | '_')) {
        return Err(format!("a bucket's name has only letters, digits, hyphens, dots and underscores, and this has {c:?}"));
    }
    if name.split('.').any(str::is_empty) {
        return Err("a bucket's name does not begin or end with a dot, nor has two in a row".into());
    }
    Ok(())
}

/// Why no bucket of this name can be made.
pub fn check_new_bucket(name: &str) -> Result<(), String> {
    check_bucket(name)?;
    if !(3..=63).contains(&name.len()) {
        return Err(format!("a bucket's name has 3 to 63 characters, and this has {}", name.len()));
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(format!("a bucket's name has no capital letters; {:?} would do", name.to_ascii_lowercase()));
    }
    if name.contains('_') {
        return Err(format!("a bucket's name has no underscores; {:?} would do", name.replace('_', "-")));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.ends_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err("a bucket's name begins and ends with a letter or a digit".into());
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() {
        return Err("a bucket's name is no IP address".into());
    }
    for reserved in ["xn--", "sthree-", "amzn-s3-demo-"] {
        if name.starts_with(reserved) {
            return Err(format!("names that begin with {reserved:?} are reserved"));
        }
    }
    for reserved in ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"] {
        if name.ends_with(reserved) {
            return Err(format!("names that end with {reserved:?} are reserved"));
        }
    }
    Ok(())
}
