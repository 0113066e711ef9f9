//! Object stores of a run: one client for each endpoint and account, a place for each bucket.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{MetaSpec, Store};
use haul_stores::s3::account::{Asked, Environment};
use haul_stores::s3::{Bucket, Client, Learning, Objects, Options, Wishes};
use zeroize::Zeroizing;

use crate::flags::objects::ObjectFlags;
use crate::out;

/// A client as the flags, the environment and the profile say. A warning goes out where certificates are not looked at.
/// `patience` bounds the waits of a request further.
fn client(flags: &ObjectFlags, patience: Option<Duration>) -> Result<Arc<Client>> {
    if flags.no_verify_ssl {
        out::complain(&"haul: WARNING: --no-verify-ssl: whoever is on the way can read and change everything\n".to_string().into(), false);
    }
    let asked = Asked {
        profile: flags.profile.clone(),
        profile_alone: flags.profile_alone,
        endpoint_url: flags.endpoint_url.clone(),
        region: flags.region.clone(),
        no_sign_request: flags.no_sign_request,
        no_verify_ssl: flags.no_verify_ssl,
        ca_bundle: flags.ca_bundle.clone(),
        patience,
        environment: Environment::process(),
    };
    Client::open(&asked).map(Arc::new)
}

/// Clients for object stores, for all commands of a process that reach the same service in the same way: clones share them.
#[derive(Clone, Debug, Default)]
pub struct Clients(Arc<Mutex<Vec<Known>>>);

/// A client, and what it was made for.
type Known = (ObjectFlags, Option<Duration>, Arc<Client>);

/// They are no part of what a command line says.
impl PartialEq for Clients {
    fn eq(&self, _: &Clients) -> bool {
        true
    }
}

impl Eq for Clients {}

impl Clients {
    /// A client as the flags, the environment and the profile say.
    pub fn get(&self, flags: &ObjectFlags, patience: Option<Duration>) -> Result<Arc<Client>> {
        // What a client depends on; the rest is said with each request.
        let way = ObjectFlags {
            endpoint_url: flags.endpoint_url.clone(),
            profile: flags.profile.clone(),
            profile_alone: flags.profile_alone,
            region: flags.region.clone(),
            no_sign_request: flags.no_sign_request,
            no_verify_ssl: flags.no_verify_ssl,
            ca_bundle: flags.ca_bundle.clone(),
            ..ObjectFlags::default()
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., client)) = known.iter().find(|(known, bound, _)| *known == way && *bound == patience) {
            return Ok(client.clone());
        }
        let client = client(flags, patience)?;
        known.push((way, patience, client.clone()));
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
        no_check_etag: flags.no_check_etag,
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
    learning: Option<Arc<Learning>>,
}

impl Place {
    pub fn new(flags: &ObjectFlags, client: Arc<Client>, bucket: &str, state: Option<&Path>) -> Result<Place> {
        haul_stores::s3::address::check_bucket(bucket).map_err(|reason| {
            let e = Error::new(ErrorKind::BadName, "open").at(format!("s3://{bucket}").as_bytes());
            e.because(reason.to_string())
        })?;
        if let Some(state) = state {
            client.remember(state);
        }
        let learning = state.map(|state| Arc::new(Learning::open(state, &client.endpoint_words(), bucket)));
        let bucket = Bucket { client, name: bucket.to_string(), wishes: Arc::new(wishes(flags)?) };
        let options = Options { look: !flags.server_times, map_keys: flags.map_keys, distrust: flags.distrust, ..Options::default() };
        Ok(Place { bucket, options, learning })
    }

    /// What is remembered of the bucket's objects.
    pub fn learning(&self) -> Option<Arc<Learning>> {
        self.learning.clone()
    }

    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The server and the profile that was named, for the first line of a run.
    pub fn service(&self) -> String {
        let server = self.bucket.client.endpoint_words();
        match self.bucket.client.profile() {
            Some(profile) => format!("{server} as {profile}"),
            None => server,
        }
    }

    /// An object, as only what stands there under just this key is; `/` and what ends in a slash is a directory.
    pub fn look(&self, path: &[u8]) -> Result<Option<Kind>> {
        let key = key(path);
        if key.is_empty() || key.ends_with(b"/") {
            return Ok(Some(Kind::Dir));
        }
        let named = |e: Error| e.at(&[self.bucket.address().as_bytes(), b"/", key].concat());
        Ok(self.bucket.head(key).map_err(named)?.map(|_| Kind::File))
    }

    /// An error that says so if there is no such bucket: better now than once for each object.
    pub fn must_exist(&self) -> Result<()> {
        match self.bucket.exists() {
            Ok(true) => Ok(()),
            Ok(false) => {
                let e = Error::new(ErrorKind::NotFound, "open").at(self.bucket.address().as_bytes());
                let e = e.because(format!("there is no bucket {} at {}", self.bucket.name, self.bucket.client.endpoint_words()));
                let server = if self.bucket.client.profile().is_some() { "the profile's endpoint_url" } else { "--endpoint-url" };
                Err(e.hint(format!("make it with `haul mb {}`, or look at {server}", self.bucket.address())))
            }
            Err(e) if e.kind() == ErrorKind::Broken => Err(e.at(self.bucket.address().as_bytes())),
            // An answer to HEAD has no words: a listing's has. Who may not list may write all the same.
            Err(_) => match self.bucket.page(b"", true, None, b"", 1) {
                Err(e) if e.kind() != ErrorKind::Denied => Err(e.at(self.bucket.address().as_bytes())),
                _ => Ok(()),
            },
        }
    }

    /// Whether there is a directory at a path: a marker, or anything below it. A whole bucket is one, also if it is empty.
    pub fn is_dir(&self, path: &[u8]) -> Result<bool> {
        let mut prefix = key(path).to_vec();
        if prefix.is_empty() {
            return Ok(true);
        }
        if !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        self.bucket.any_below(&prefix)
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
        Objects::new(self.bucket.clone(), key(path), Options { server_times: !to_write, ..self.options }).learning(self.learning.clone())
    }
}

/// The key of a path, which begins with the slash that stands between bucket and key.
fn key(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"/").unwrap_or(path)
}
