//! The flags that only object stores have.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use haul_core::place::{Location, Scheme};
use serde::{Deserialize, Serialize};

use haul_core::place::provider::{Values, root_all};
use haul_net::http_client::TlsFlags;
use haul_net::http_client::time;

/// What the flags say of object stores.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[group(skip)]
#[command(next_help_heading = "Object stores (s3://; no effect on other addresses)")]
pub struct Flags {
    /// Use this S3 endpoint (default: S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, Amazon's)
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Use the keys and settings of this profile in ~/.aws
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Use this region (default: auto-detected)
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Send unsigned requests, for public buckets
    #[arg(long)]
    pub no_sign_request: bool,
    /// Use this code for roles that require MFA (default: ask at the terminal)
    #[arg(long, value_name = "CODE", value_parser = mfa_code)]
    pub mfa_code: Option<String>,
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Pay for requests to requester-pays buckets
    #[arg(long)]
    pub request_payer: bool,
    /// Write objects in this storage class (STANDARD_IA, GLACIER_IR, DEEP_ARCHIVE ...)
    #[arg(long, value_name = "CLASS")]
    pub storage_class: Option<String>,
    /// Encrypt objects on the server: AES256 or aws:kms
    #[arg(long, value_name = "KIND", value_parser = ["AES256", "aws:kms", "aws:kms:dsse"])]
    pub sse: Option<String>,
    /// Use this key for --sse aws:kms
    #[arg(long, value_name = "ID", requires = "sse")]
    pub sse_kms_key_id: Option<String>,
    /// Encrypt and decrypt objects with the key in FILE (32 bytes, raw or base64)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "sse")]
    pub sse_c: Option<PathBuf>,
    /// Write objects with this canned ACL (private, bucket-owner-full-control ...); copy: the source's grants
    #[arg(long, value_name = "ACL", value_parser = header_text)]
    pub acl: Option<String>,
    /// Have the service store this checksum of objects (default: auto-detected)
    #[arg(long, value_name = "NAME", ignore_case = true, value_parser = ["CRC64NVME", "CRC32C", "CRC32", "SHA256", "SHA1"])]
    pub checksum_algorithm: Option<String>,
    /// Write objects with this user metadata (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub metadata: Vec<(String, String)>,
    /// Set the Content-Type of objects (default: guessed from the file extension)
    #[arg(long, value_name = "TYPE", value_parser = header_text)]
    pub content_type: Option<String>,
    /// Set the Cache-Control of objects
    #[arg(long, value_name = "TEXT", value_parser = header_text)]
    pub cache_control: Option<String>,
    /// Set the Content-Encoding of objects
    #[arg(long, value_name = "TEXT", value_parser = header_text)]
    pub content_encoding: Option<String>,
    /// Set the Content-Disposition of objects
    #[arg(long, value_name = "TEXT", value_parser = header_text)]
    pub content_disposition: Option<String>,
    /// Set the Content-Language of objects
    #[arg(long, value_name = "TEXT", value_parser = header_text)]
    pub content_language: Option<String>,
    /// Set the Expires header of objects (2030-01-01T00:00:00Z)
    #[arg(long, value_name = "DATE", value_parser = http_date)]
    pub expires_at: Option<String>,
    /// Set the tags of objects
    #[arg(long, value_name = "K=V&K=V", value_parser = header_text)]
    pub tagging: Option<String>,
    /// Use the service's modification times, not those in metadata (saves one request per object)
    #[arg(long)]
    pub server_times: bool,
    /// Map keys that are not valid file names (a//b, ../x, a beside a/b) to file names, and back
    #[arg(long)]
    pub map_keys: bool,
    /// Take keys literally, without wildcards
    #[arg(long)]
    pub raw: bool,
    /// Create no objects that stand for directories (their attributes and empty directories are lost)
    #[arg(long)]
    pub no_markers: bool,
    /// Do not compare content with ETags that look like MD5 (for services whose ETags are not)
    #[arg(long)]
    pub no_check_etag: bool,
    /// Restore devices, setuid bits and file capabilities from object metadata (anyone who can write objects controls them)
    #[arg(long)]
    pub trust_metadata: bool,
    /// The profile is an address's own: it alone says server, region and keys.
    #[arg(skip)]
    pub profile_alone: bool,
    /// Objects are read in this version: of `--version-id`, which only some commands have.
    #[arg(skip)]
    pub version_id: Option<String>,
    /// Regions of single places, by the authority of their addresses: of `--source-region` and `--destination-region`, which only
    /// some commands have.
    #[arg(skip)]
    pub regions: Vec<(String, String)>,
}

impl Values for Flags {
    fn record(&self, directory: &Path) -> Option<(Scheme, serde_json::Value)> {
        // A code is good for half a minute, and no job keeps it.
        let mut flags = Flags { mfa_code: None, ..self.clone() };
        root_all(flags.tls.ca_bundle.iter_mut().chain(&mut flags.sse_c), directory);
        Some((super::provider::S3, serde_json::to_value(flags).unwrap_or_default()))
    }
}

impl Flags {
    /// Whether anything is asked for that objects can have anew without other content.
    pub fn wishes(&self) -> bool {
        let other = [&self.sse, &self.checksum_algorithm, &self.tagging];
        !self.metadata.is_empty() || self.headers().iter().any(Option::is_some) || other.into_iter().any(Option::is_some)
    }

    /// The values of [`HEADERS`](super::put_options::HEADERS).
    pub(super) fn headers(&self) -> [Option<&String>; 8] {
        [
            self.content_type.as_ref(),
            self.cache_control.as_ref(),
            self.content_disposition.as_ref(),
            self.content_encoding.as_ref(),
            self.content_language.as_ref(),
            self.expires_at.as_ref(),
            self.storage_class.as_ref(),
            None,
        ]
    }

    /// For an address: with the region that was given for it, and for its profile.
    pub fn of_place(&self, location: &Location) -> Flags {
        let authority = location.authority();
        let own = self.regions.iter().find(|(known, _)| *known == authority).map(|(_, region)| region.clone());
        let flags = self.of_profile(location.user.as_deref());
        Flags { region: own.or(flags.region.clone()), ..flags }
    }

    /// For an address that names a profile, which alone says then how its server is reached and who asks.
    pub fn of_profile(&self, profile: Option<&str>) -> Flags {
        match profile {
            None => self.clone(),
            Some(name) => Flags {
                profile: Some(name.to_string()),
                profile_alone: true,
                endpoint_url: None,
                region: None,
                no_sign_request: false,
                ..self.clone()
            },
        }
    }
}

/// A version's id: the service made it up.
pub fn version(text: &str) -> Result<String, String> {
    match text.is_empty() {
        false => header_text(text),
        true => Err("`haul ls --all-versions` names the versions".into()),
    }
}

/// Six digits as a rule; AWS takes no others.
fn mfa_code(text: &str) -> Result<String, String> {
    match (6..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
        true => Ok(text.to_string()),
        false => Err("a code is the digits that the MFA device shows".into()),
    }
}

/// `KEY=VALUE` of user metadata: what a header can carry.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        return Err("the key takes letters, digits and - _ . only".into());
    }
    let name = name.to_ascii_lowercase();
    if super::attributes::NAMES.contains(&&*name) {
        return Err(format!("{name} is where haul keeps an attribute of the file; choose another name"));
    }
    Ok((name, header_text(value)?))
}

/// A time as in ISO 8601 or as in HTTP, in the form of HTTP: services ignore others without a word.
fn http_date(text: &str) -> Result<String, String> {
    let at = time::iso(text).or_else(|| time::http(text)).and_then(time::http_text);
    at.ok_or_else(|| "a date is 2030-01-01T00:00:00Z, or Tue, 01 Jan 2030 00:00:00 GMT".into())
}

fn header_text(text: &str) -> Result<String, String> {
    match text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        true => Ok(text.to_string()),
        false => Err("a header takes printable ASCII only".into()),
    }
}
