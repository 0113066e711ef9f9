//! Object stores of a run: one client for each endpoint and account, a place for each bucket.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{MetaSpec, Store};
use haul_stores::s3::account::{Asked, Environment};
use haul_stores::s3::{Bucket, Client, Objects, Options, Wishes};
use zeroize::Zeroizing;

use crate::flags::objects::ObjectFlags;
use crate::out;

/// A client as the flags, the environment and the profile say. A warning goes out where certificates are not looked at.
fn client(flags: &ObjectFlags) -> Result<Arc<Client>> {
    if flags.no_verify_ssl {
        out::complain(&"haul: WARNING: --no-verify-ssl: whoever is on the way can read and change everything\n".to_string().into(), false);
    }
    let asked = Asked {
        profile: flags.profile.clone(),
        endpoint_url: flags.endpoint_url.clone(),
        region: flags.region.clone(),
        no_sign_request: flags.no_sign_request,
        no_verify_ssl: flags.no_verify_ssl,
        ca_bundle: flags.ca_bundle.clone(),
        environment: Environment::process(),
    };
    Client::open(&asked).map(Arc::new)
}

/// Clients for object stores, for all commands of a process that reach the same service in the same way: clones share them.
#[derive(Clone, Debug, Default)]
pub struct Clients(Arc<Mutex<Vec<Known>>>);

/// What a client was opened with, and the client.
type Known = (ObjectFlags, Arc<Client>);

/// They are no part of what a command line says.
impl PartialEq for Clients {
    fn eq(&self, _: &Clients) -> bool {
        true
    }
}

impl Eq for Clients {}

impl Clients {
    /// A client as the flags, the environment and the profile say.
    pub fn get(&self, flags: &ObjectFlags) -> Result<Arc<Client>> {
        // What a client depends on; the rest is said with each request.
        let way = ObjectFlags {
            endpoint_url: flags.endpoint_url.clone(),
            profile: flags.profile.clone(),
            region: flags.region.clone(),
            no_sign_request: flags.no_sign_request,
            no_verify_ssl: flags.no_verify_ssl,
            ca_bundle: flags.ca_bundle.clone(),
            ..ObjectFlags::default()
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = known.iter().find(|(known, _)| *known == way) {
            return Ok(client.clone());
        }
        let client = client(flags)?;
        known.push((way, client.clone()));
        Ok(client)
    }
}

/// What objects are to be written with.
pub fn wishes(flags: &ObjectFlags) -> Result<Wishes> {
    Ok(Wishes {
        storage_class: flags.storage_class.clone(),
        encryption: flags.sse.clone(),
        kms_key: flags.sse_kms_key_id.clone(),
        customer_key: flags.sse_c.as_deref().map(customer_key).transpose()?,
        acl: flags.acl.clone(),
        metadata: flags.metadata.clone(),
        content_type: flags.content_type.clone(),
        cache_control: flags.cache_control.clone(),
        tagging: flags.tagging.clone(),
        request_payer: flags.request_payer,
        version: flags.version_id.clone(),
    })
}

/// 32 bytes as they are, or their base64 in one line.
fn customer_key(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let shown = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    let bytes = Zeroizing::new(std::fs::read(path).map_err(|e| Error::io(e, "read the key of --sse-c").at(shown))?);
    if bytes.len() == 32 {
        return Ok(bytes);
    }
    let text = bytes.trim_ascii();
    match base64::engine::general_purpose::STANDARD.decode(text) {
        Ok(key) if key.len() == 32 => Ok(Zeroizing::new(key)),
        _ => {
            let e = Error::new(ErrorKind::Usage, "read the key of --sse-c").at(shown);
            Err(e.because("is no key: 32 bytes are, or 44 characters of base64").hint("`openssl rand -out FILE 32` makes one"))
        }
    }
}

/// A bucket and how its objects are used in this run.
#[derive(Debug)]
pub struct Place {
    bucket: Bucket,
    options: Options,
}

impl Place {
    pub fn new(flags: &ObjectFlags, client: Arc<Client>, bucket: &str) -> Result<Place> {
        haul_stores::s3::address::check_bucket(bucket).map_err(|reason| {
            let e = Error::new(ErrorKind::BadName, "open").at(format!("s3://{bucket}").as_bytes());
            e.because(reason.to_string())
        })?;
        let bucket = Bucket { client, name: bucket.to_string(), wishes: Arc::new(wishes(flags)?) };
        let options = Options { look: !flags.server_times, ..Options::default() };
        Ok(Place { bucket, options })
    }

    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Where the objects are, for the first line of a run.
    pub fn sentence(&self) -> String {
        format!("(S3 at {})", self.bucket.client.endpoint_words())
    }

    /// An object, as only what stands there under just this key is; `/` and what ends in a slash is a directory.
    pub fn look(&self, path: &[u8]) -> Result<Option<Kind>> {
        let key = key(path);
        if key.is_empty() || key.ends_with(b"/") {
            return Ok(Some(Kind::Dir));
        }
        Ok(self.bucket.head(key)?.map(|_| Kind::File))
    }

    /// Whether there is anything below a path, as below a directory.
    pub fn has_below(&self, path: &[u8]) -> Result<bool> {
        let mut any = false;
        let store = self.open(path, false);
        store.list(&haul_core::entry::Dir::root(), haul_core::store::Depth::One, &mut |_| {
            any = true;
            haul_core::store::Flow::Stop
        })?;
        Ok(any)
    }

    /// The marker of a directory: an empty one is nothing without it.
    pub fn make_dir(&self, path: &[u8]) -> Result<()> {
        let store = self.open(path, true);
        let name = Name::of(&haul_core::entry::Dir::root());
        let entry = Entry::bare(name.clone(), Kind::Dir);
        let spec = MetaSpec { name: &name, entry: &entry, keep: MetaMask::NONE };
        store.set_meta(&[spec]).pop().unwrap_or_else(|| Ok(Default::default())).map(|_| ())
    }

    /// The directory at a path, for reading or to be written to.
    pub fn open(&self, path: &[u8], to_write: bool) -> Objects {
        Objects::new(self.bucket.clone(), key(path), Options { server_times: !to_write, ..self.options })
    }
}

/// The key of a path, which begins with the slash that stands between bucket and key.
fn key(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"/").unwrap_or(path)
}
