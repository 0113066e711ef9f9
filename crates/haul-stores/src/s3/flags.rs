//! The flags that only object stores have.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// What the flags say of object stores.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[group(skip)]
#[command(next_help_heading = "Object stores (s3:// addresses; no effect on others)")]
pub struct Flags {
    /// The server of s3:// addresses (else S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, Amazon's)
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// The profile in ~/.aws whose keys and settings to use
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// The region of the bucket (else found out)
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Send requests unsigned: for public buckets
    #[arg(long)]
    pub no_sign_request: bool,
    /// Trust any certificate: whoever is on the way can read and change everything
    #[arg(long)]
    pub no_verify_ssl: bool,
    /// Trust the authorities in FILE (PEM) in place of the system's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca_bundle: Option<PathBuf>,
    /// Pay for the requests, on buckets whose owner asks for that
    #[arg(long)]
    pub request_payer: bool,
    /// Write objects in this class (STANDARD_IA, GLACIER_IR, DEEP_ARCHIVE ...)
    #[arg(long, value_name = "CLASS")]
    pub storage_class: Option<String>,
    /// Have the service encrypt objects: AES256 or aws:kms
    #[arg(long, value_name = "KIND", value_parser = ["AES256", "aws:kms", "aws:kms:dsse"])]
    pub sse: Option<String>,
    /// The key for --sse aws:kms
    #[arg(long, value_name = "ID", requires = "sse")]
    pub sse_kms_key_id: Option<String>,
    /// Encrypt with a key of your own, 32 bytes or their base64 in FILE, and read what was
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "sse")]
    pub sse_c: Option<PathBuf>,
    /// Write objects with this canned ACL (private, bucket-owner-full-control ...)
    #[arg(long, value_name = "ACL")]
    pub acl: Option<String>,
    /// Write objects with this user metadata; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub metadata: Vec<(String, String)>,
    /// The media type of objects (else guessed by the name's ending)
    #[arg(long, value_name = "TYPE", value_parser = header_text)]
    pub content_type: Option<String>,
    /// The Cache-Control of objects
    #[arg(long, value_name = "TEXT", value_parser = header_text)]
    pub cache_control: Option<String>,
    /// Tags of objects
    #[arg(long, value_name = "K=V&K=V", value_parser = header_text)]
    pub tagging: Option<String>,
    /// Take the service's times of objects, without asking for those that they carry: one request less an object
    #[arg(long)]
    pub server_times: bool,
    /// Give keys that are no file names (a//b, ../x, a beside a/b) names that stand for them, and such names their keys
    #[arg(long)]
    pub map_keys: bool,
    /// Do not compare content with ETags that look like MD5s (for services whose ETags are not)
    #[arg(long)]
    pub no_check_etag: bool,
    /// Make devices, setuid files and file capabilities from objects' metadata (anybody who may write objects chooses them)
    #[arg(long)]
    pub trust_metadata: bool,
    /// The profile is an address's own: it alone says server, region and keys.
    #[arg(skip)]
    pub profile_alone: bool,
    /// Objects are read in this version: of `--version-id`, which only some commands have.
    #[arg(skip)]
    pub version_id: Option<String>,
}

impl Flags {
    /// The same for an address that names a profile, which alone says then how its server is reached and who asks.
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

/// `KEY=VALUE` of user metadata: what a header can carry.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        return Err("the key takes letters, digits and - _ . only".into());
    }
    Ok((name.to_ascii_lowercase(), header_text(value)?))
}

fn header_text(text: &str) -> Result<String, String> {
    match text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        true => Ok(text.to_string()),
        false => Err("a header takes printable ASCII only".into()),
    }
}
